import Encoding

extension Instant {
    /// Instants at which answers can be wrong: at and around each boundary of access, and between boundaries. None is after
    /// the end of a window in which subscriptions go on: what follows is not known yet.
    ///
    /// - Parameters:
    ///   - boundaries: Ascending.
    ///   - milliseconds: How far from a boundary.
    static func questions(
        around boundaries: [Instant], in window: StoryWindow, _ milliseconds: ClosedRange<Int64> = -1...1
    ) -> [Instant] {
        let passed = window.goesOn ? boundaries.filter { $0 < window.end } : boundaries
        let middles = zip(passed, passed.dropFirst() + [window.end]).map { start, end in
            start.advanced(byMilliseconds: (end.milliseconds - start.milliseconds) / 2)
        }
        return passed.flatMap { boundary in milliseconds.map { boundary.advanced(byMilliseconds: $0) } } + middles
    }
}
