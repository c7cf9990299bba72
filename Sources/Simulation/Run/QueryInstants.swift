import Encoding

extension Instant {
    /// Instants at which answers can be wrong: at and around each boundary of access, and between boundaries.
    ///
    /// - Parameters:
    ///   - boundaries: Ascending.
    ///   - milliseconds: How far from a boundary.
    static func questions(around boundaries: [Instant], _ milliseconds: ClosedRange<Int64> = -1...1) -> [Instant] {
        let middles = zip(boundaries, boundaries.dropFirst() + [Draw.window.upperBound]).map { start, end in
            start.advanced(byMilliseconds: (end.milliseconds - start.milliseconds) / 2)
        }
        return boundaries.flatMap { boundary in milliseconds.map { boundary.advanced(byMilliseconds: $0) } } + middles
    }
}
