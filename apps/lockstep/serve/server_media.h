/* server_media.h - the recordings of one request on their way to vectors. Decoding and encoding
 * take seconds, so a thread of their own does it while the connection is suspended; the encoder has
 * one user at a time. */
#ifndef LK_SERVER_MEDIA_H
#define LK_SERVER_MEDIA_H

#include "serve_media.h"
#include "server.h"

/* Opens the projector of the command line, if there is one. Prints the reason of a failure. */
bool server_media_open(server *s);
void server_media_close(server *s);

/* Takes the clips over, also when it fails. On success the connection is suspended, and its handler
 * is called again when the vectors are there, or the time is over (0: any). */
bool server_media_start(exchange *x, serve_clips *clips, uint32_t timeout_ms,
                        serve_problem *problem);
/* Then: moves the vectors to the exchange's job. */
bool server_media_finish(exchange *x, serve_problem *problem);
/* The connection has ended instead, after it was woken. */
void server_media_drop(exchange *x);
/* Gives the job's prompt as many audio tokens as its clips have vectors. */
bool server_media_place(const server *s, serve_job *job, serve_problem *problem);

#endif
