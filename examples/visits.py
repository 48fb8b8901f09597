"""Write ``rows.csv`` and ``new-rows.csv``: synthetic visits to a clinic, with categories, gaps, several of a patient.

Who misses the next appointment depends on age, distance and department, and on chance. New rows have no outcome yet.
"""

import csv
import math
import random

COLUMNS = ["patient", "age", "department", "insurance", "distance_km", "outcome"]
DEPARTMENTS = {"cardiology": -0.8, "dermatology": 0.6, "orthopaedics": 0.2, "paediatrics": -1.0}


def visits(n: int, chance: random.Random) -> list[list[object]]:
    """Return ``n`` visits, the columns in order."""
    rows: list[list[object]] = []
    for _ in range(n):
        age = chance.randint(1, 95)
        department = chance.choice(list(DEPARTMENTS))
        insurance = chance.choices(["public", "private", ""], [8, 3, 1])[0]  # a gap: not asked
        distance = round(min(chance.expovariate(1 / 15), 300), 1)
        score = 1.0 - age / 30 + DEPARTMENTS[department] + math.log1p(distance) / 2 - (insurance == "private")
        outcome = "missed" if chance.random() < 1 / (1 + math.exp(-2 * score)) else "kept"
        rows.append([f"P{chance.randrange(n // 2):06}", age, department, insurance, distance, outcome])
    return rows


def write(path: str, header: list[str], rows: list[list[object]]) -> None:
    """Write a CSV file."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


if __name__ == "__main__":
    chance = random.Random(1)
    write("rows.csv", COLUMNS, visits(40_000, chance))
    write("new-rows.csv", COLUMNS[:-1], [row[:-1] for row in visits(5, chance)])
