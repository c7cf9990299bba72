/// Schedules when a session discards the plans of its prepared statements.
///
/// PostgreSQL keeps the plan of a prepared statement until the table is analyzed, at the earliest a minute after rows
/// were inserted. A plan made for an empty table may use any access path and is a disaster once the table holds a few
/// thousand rows. So plans are discarded after 2, 4, 8, … runs, up to every 2048: rarely enough to cost nothing, and
/// often enough that a table has not grown much more than twofold in between.
struct PlanReset {
    private static let pauseMax = 2048
    private var runs = 0
    /// Runs between two discards.
    private var pause = 2

    /// Counts a run and returns true if plans must be discarded before it. Stays true until ``isDone()``.
    mutating func isDue() -> Bool {
        runs += 1
        return runs >= pause
    }

    mutating func isDone() {
        runs = 0
        pause = min(pause * 2, Self.pauseMax)
    }
}
