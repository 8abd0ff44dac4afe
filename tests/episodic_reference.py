"""Episodic bonuses from their definitions, lane by lane, in double precision."""

import numpy as np


def elliptical(features, ended, ridge):
    """E3B: phi^T C^{-1} phi with C inverted anew at every step; [time, lane, d] -> [time, lane]."""
    time, lanes, latent = features.shape
    bonus = np.zeros((time, lanes))
    for lane in range(lanes):
        empty = covariance = ridge * np.eye(latent)
        for t in range(time):
            phi = features[t, lane].astype(np.float64)
            if covariance is not empty:
                bonus[t, lane] = phi @ np.linalg.solve(covariance, phi)
            covariance = empty if ended[t, lane] else covariance + np.outer(phi, phi)
    return bonus


def first_visits(before, after, ended):
    """NovelD's indicator: whether o_{t+1} is new in its episode, which begins with its o_0."""
    is_first = np.zeros(ended.shape, bool)
    for lane in range(ended.shape[1]):
        seen = set()
        for t in range(len(ended)):
            seen.add(before[t, lane].tobytes())
            is_first[t, lane] = after[t, lane].tobytes() not in seen
            if ended[t, lane]:
                seen = set()
    return is_first


def pseudo_counts(embeddings, ended, *, k, epsilon, xi, c, most, capacity=None):
    """NGU's Algorithm 1; all lanes' distances of a step enter the running mean d_m^2 first."""
    time, lanes, _ = embeddings.shape
    memories, distances = [[] for _ in range(lanes)], []
    reward = np.zeros((time, lanes))
    for t in range(time):
        nearest = {}
        for lane, memory in enumerate(memories):
            phi = embeddings[t, lane].astype(np.float64)
            if len(memory) >= k:
                nearest[lane] = np.sort([np.sum((phi - other) ** 2) for other in memory])[:k]
                distances.extend(nearest[lane])
            memory.append(phi)
            del memory[: -(capacity or len(memory))]
        for lane, found in nearest.items():
            normalized = np.maximum(found / (np.mean(distances) or 1.0) - xi, 0)
            similarity = np.sqrt(np.sum(epsilon / (normalized + epsilon))) + c
            reward[t, lane] = 0 if similarity > most else 1 / similarity
        for lane in np.flatnonzero(ended[t]):
            memories[lane] = []
    return reward


def visits(numbers, ended=None):
    """N(s_t), this visit included: in the episode so far, or without `ended` in all lanes."""
    counts = np.zeros(numbers.shape, int)
    for lane in range(numbers.shape[1]):
        seen: list[int] = []
        for t, number in enumerate(numbers[:, lane]):
            seen.append(number)
            counts[t, lane] = (numbers == number).sum() if ended is None else seen.count(number)
            if ended is not None and ended[t, lane]:
                seen = []
    return counts
