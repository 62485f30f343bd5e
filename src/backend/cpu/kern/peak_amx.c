/* peak_amx.c - see peak.h. Four sums in registers 0 to 3, two registers of each operand, as the
 * kernels use them. */
#include "backend/cpu/kern/amx.h"
#include "backend/cpu/kern/peak.h"

int32_t lk_peak_int8_amx(uint32_t n_rounds, const int8_t in[64]) {
    alignas(64) int8_t operand[16][64];
    alignas(64) int32_t sums[16][16];
    for (int i = 0; i < 16; i++) {
        memcpy(operand[i], in, 64);
    }
    lk_amx_begin(16, 64);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, operand, 64);
    _tile_loadd(5, operand, 64);
    _tile_loadd(6, operand, 64);
    _tile_loadd(7, operand, 64);
    for (uint32_t k = 0; k < n_rounds; k++) {
        _tile_dpbssd(0, 4, 6);
        _tile_dpbssd(1, 4, 7);
        _tile_dpbssd(2, 5, 6);
        _tile_dpbssd(3, 5, 7);
    }
    _tile_stored(3, sums, 64);
    lk_amx_written();
    lk_amx_end();
    return sums[0][0] ^ sums[15][15];
}
