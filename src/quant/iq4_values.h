/* iq4_values.h - the sixteen integers that the nibbles of IQ4_NL and IQ4_XS stand for: steps that
 * are small near zero, as weights are distributed. */
#ifndef LK_QUANT_IQ4_VALUES_H
#define LK_QUANT_IQ4_VALUES_H

#include <stdint.h>

static const int8_t lk_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                         1,    13,   25,  38,  53,  69,  89,  113};

#endif
