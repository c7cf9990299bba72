import Subscriptions

/// When one customer is entitled to what: by any of the lines, each with a record of its own.
package struct EntitlementBook: Sendable, Hashable {
    /// Unbroken runs of access, in their order, none touching the next.
    private let runs: [String: [Range<Instant>]]

    package init(_ lines: [AccessBook]) {
        var spans: [String: [Range<Instant>]] = [:]
        for (product, span) in lines.flatMap(\.spans) {
            for entitlement in product.entitlements { spans[entitlement, default: []].append(span) }
        }
        runs = spans.mapValues(Self.joined)
    }

    private static func joined(_ spans: [Range<Instant>]) -> [Range<Instant>] {
        spans.sorted { $0.lowerBound < $1.lowerBound }.reduce(into: []) { runs, span in
            if let last = runs.last, span.lowerBound <= last.upperBound {
                runs[runs.count - 1] = last.lowerBound..<max(last.upperBound, span.upperBound)
            } else {
                runs.append(span)
            }
        }
    }

    /// When the run of access ends that the instant lies in. ``Instant/latest`` for what is owned, nil where there is
    /// no access.
    package func end(of entitlement: String, at instant: Instant) -> Instant? {
        runs[entitlement]?.first { $0.contains(instant) }?.upperBound
    }
}
