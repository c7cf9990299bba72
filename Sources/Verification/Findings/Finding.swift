import EventLog

/// A verification failure, described in one line.
package struct Finding: Sendable, Hashable, CustomStringConvertible {
    package let description: String

    package init(_ stream: AuditedStream, position: Int64? = nil, _ problem: String) {
        let place = position.map { " position \($0)" } ?? ""
        let name = stream.key.map { " (\($0.app), \($0.environment.rawValue))" } ?? ""
        description = "stream \(stream.id)\(name)\(place): \(problem)"
    }

    /// A finding about events between two positions, of which it is not known which one it is.
    package init(_ stream: AuditedStream, positions: ClosedRange<Int64>, _ problem: String) {
        guard positions.lowerBound < positions.upperBound else {
            self.init(stream, position: positions.upperBound, problem)
            return
        }
        self.init(stream, row: "positions \(positions.lowerBound) to \(positions.upperBound): \(problem)")
    }

    /// A finding about a row of the projections.
    package init(_ stream: AuditedStream, row: String) {
        let name = stream.key.map { " (\($0.app), \($0.environment.rawValue))" } ?? ""
        description = "stream \(stream.id)\(name) \(row)"
    }

    static func unregistered(_ stream: AuditedStream) -> Finding {
        Finding(stream, "has a head or events but is not registered")
    }

    /// A finding without a stream.
    package init(row: String) {
        description = row
    }

    package init(stream: Int32, row: String) {
        description = "stream \(stream) \(row)"
    }
}
