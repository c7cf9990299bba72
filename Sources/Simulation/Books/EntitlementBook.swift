import Encoding

/// The entitlements of one customer over time: the union over the access of all of the customer's subscriptions.
package struct EntitlementBook: Sendable, Hashable {
    /// Uninterrupted intervals of access by entitlement, ascending; adjacent intervals are merged.
    private let runs: [String: [Range<Instant>]]

    /// - Parameter owned: Only access in this interval counts.
    package init(_ books: [AccessBook], owned: Range<Instant> = Instant.earliest..<Instant.latest) {
        self.init(books.map { ($0, owned) })
    }

    /// - Parameter books: The access of each subscription, with the interval in which it counts.
    package init(_ books: [(access: AccessBook, owned: Range<Instant>)]) {
        var spans: [String: [Range<Instant>]] = [:]
        for (access, owned) in books {
            for (product, span) in access.spans.map({ ($0.product, $0.span.clamped(to: owned)) }) where !span.isEmpty {
                for entitlement in product.entitlements { spans[entitlement, default: []].append(span) }
            }
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

    /// The end of the interval of access that contains the instant: ``Instant/latest`` if the product is owned, nil if
    /// there is no access.
    package func end(of entitlement: String, at instant: Instant) -> Instant? {
        runs[entitlement]?.first { $0.contains(instant) }?.upperBound
    }
}
