"""Lines over time: where they begin and end, and what lies under another."""

from __future__ import annotations

from opavnic.web.scene.charts import plot


def test_line_is_not_drawn_through_times_without_samples_and_its_ends_are_marked() -> None:
    points = [(1.0, 5.0), (2.0, 6.0), (3.0, 7.0), (60.0, 1.0), (61.0, 2.0), (100.0, 3.0)]
    drawn = plot("Traffic", "Mbit/s", {"sent": points}, gap_s=10.0)["series"][0]["data"]
    values = [item["value"] if isinstance(item, dict) else item for item in drawn]
    assert [value for _, value in values] == [5.0, 6.0, 7.0, None, 1.0, 2.0, None, 3.0]
    marked = [item["value"][0] / 1000 for item in drawn if isinstance(item, dict)]
    assert marked == [1.0, 3.0, 60.0, 61.0, 100.0]


def test_line_under_another_of_the_same_values_is_wider() -> None:
    same = [(1.0, 5.0), (2.0, 6.0)]
    sent, delivered = plot("Traffic", "Mbit/s", {"sent": same, "delivered": same}, gap_s=10.0)["series"]
    assert sent["lineStyle"]["width"] > delivered["lineStyle"]["width"] + 3
