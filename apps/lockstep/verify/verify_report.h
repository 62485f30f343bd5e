/* verify_report.h - the reports in files: what the table says, and more. No text of a prompt or an
 * answer is in them unless the options ask for it. */
#ifndef LK_VERIFY_REPORT_H
#define LK_VERIFY_REPORT_H

#include "verify.h"

/* Each writes a whole file and returns false, with the reason printed, when it could not. */
bool verify_report_json(const verify *v, const char *path);
bool verify_report_junit(const verify *v, const char *path);
bool verify_report_html(const verify *v, const char *path);

/* Text as &lt;text&gt;, for HTML and XML; control characters as spaces. */
void verify_report_escaped(FILE *file, const char *text);
/* Closes; false, with the reason printed, when something could not be written. */
bool verify_report_close(FILE *file, const char *path);
FILE *verify_report_open(const char *path);

#endif
