/* dft400.h - the power spectrum of 400 real numbers, in binary64, in one fixed order: two
 * neighbours become one complex number, a transform of 200 = 4 * 5 * 5 * 2 points, and its halves
 * are joined (docs/numerics.md, section 15). */
#ifndef LK_AUDIO_DFT400_H
#define LK_AUDIO_DFT400_H

enum { LK_DFT = 400, LK_DFT_HALF = LK_DFT / 2 };

/* Cosine and sine of k * 2 pi / 400. */
typedef struct lk_dft400 {
    double c[LK_DFT];
    double s[LK_DFT];
} lk_dft400;

void lk_dft400_init(lk_dft400 *t);

/* |X[k]|^2 for k = 0 .. 200, X[k] = sum over n of x[n] e^(-2 pi i k n / 400). */
void lk_dft400_power(const lk_dft400 *t, const double x[LK_DFT], double power[LK_DFT_HALF + 1]);

#endif
