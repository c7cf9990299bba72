/// When a session plans its statements anew.
///
/// PostgreSQL keeps the plan of a prepared statement until the table is analyzed, which is a minute after rows came at
/// the earliest. One made for an empty table is made for any order of looking at it, and is a disaster by the time it
/// holds some thousand rows. So plans are thrown away whenever a session has run twice as much as the last time, which
/// is seldom enough to cost nothing, and soon enough that a table has not grown much more than that meanwhile.
struct Replanning {
    private static let pauseMax = 2048
    private var runs = 0
    /// Runs from one time to the next.
    private var pause = 2

    /// Counts a run, and tells whether plans are to be made anew before it. Stays due until they were.
    mutating func isDue() -> Bool {
        runs += 1
        return runs >= pause
    }

    mutating func isDone() {
        runs = 0
        pause = min(pause * 2, Self.pauseMax)
    }
}
