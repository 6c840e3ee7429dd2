"""Functions of one's own, and of other libraries, that share a name."""

import numpy as np


def autocast(enabled=True):
    return enabled


def symeig(matrix):
    return np.linalg.eigh(matrix)


class Scheduler:
    def __init__(self, verbose=False):
        self.verbose = verbose


autocast()
symeig(np.eye(3))
Scheduler(verbose=True)
np.linalg.qr(np.eye(3))
np.linalg.svd(np.eye(3))
