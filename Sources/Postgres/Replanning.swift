/// When a session plans its statements anew.
///
/// PostgreSQL keeps the plan of a prepared statement until the table is analyzed, which is a minute after rows came at
/// the earliest. One made for an empty table is made for any order of looking at it, and is a disaster by the time it
/// holds some thousand rows. So plans are thrown away whenever a session has run twice as much as the last time, which
/// is seldom enough to cost nothing, and soon enough that a table has not grown much more than that meanwhile.
struct Replanning {
    /// From then on it is due at each multiple.
    private static let periodMax = 4096
    private var runs = 0

    /// Counts a run, and tells whether plans are to be made anew before it.
    mutating func isDue() -> Bool {
        runs += 1
        guard runs < Self.periodMax else {
            runs = Self.periodMax / 2
            return true
        }
        return runs > 1 && runs.nonzeroBitCount == 1
    }
}
