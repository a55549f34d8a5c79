"""Student's t distribution, for intervals from few samples."""

NORMAL = 1.96  # standard errors within which 95 % of a normal distribution are
# The same for 1, 2, ... degrees of freedom (NIST/SEMATECH e-Handbook, 1.3.6.7.2).
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


def student(samples: int) -> float:
    """Return the standard errors of a mean of at least 2 samples within which it is in 95 %.

    Behind the table, t is the normal's and the first term in 1 / (degrees of freedom)
    (Abramowitz & Stegun, 26.7.5), 1.4 % too small at most.
    """
    freedom = samples - 1
    if freedom <= len(STUDENT):
        return STUDENT[freedom - 1]
    return NORMAL + (NORMAL**3 + NORMAL) / (4 * freedom)
