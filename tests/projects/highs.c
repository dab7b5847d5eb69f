// Solves a small linear program: max 3x + 4y, x + y <= 8, x + 2y <= 12, x, y >= 0; the optimum is (4, 4).
#include <stdio.h>

#include "interfaces/highs_c_api.h"

int probe(const char *argument) {
    (void)argument;
    const double cost[] = {3, 4}, low[] = {0, 0}, high[] = {1e30, 1e30};
    const double row_low[] = {-1e30, -1e30}, row_high[] = {8, 12}, values[] = {1, 1, 1, 2};
    const HighsInt starts[] = {0, 2}, indices[] = {0, 1, 0, 1};
    double x[2], dual[2], row[2], row_dual[2];
    HighsInt column_basis[2], row_basis[2], status;
    HighsInt rc = Highs_lpCall(2, 2, 4, 1, -1, 0, cost, low, high, row_low, row_high, starts, indices, values, x, dual, row,
                               row_dual, column_basis, row_basis, &status);
    printf("objective %g\n", 3 * x[0] + 4 * x[1]);
    return rc == 0 ? 0 : 2;
}
