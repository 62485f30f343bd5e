/* cuda_images.h - the device code in the library: PTX, made by Clang when the library is built
 * (cmake/LkCuda.cmake). Where there was no Clang the list is empty. */
#ifndef LK_BACKEND_CUDA_CUDA_IMAGES_H
#define LK_BACKEND_CUDA_CUDA_IMAGES_H

typedef struct lk_cuda_image {
    const char *name; /* of the file that it was made of */
    const char *ptx;  /* zero-terminated */
} lk_cuda_image;

extern const lk_cuda_image lk_cuda_images[]; /* up to one without a name */

#endif
