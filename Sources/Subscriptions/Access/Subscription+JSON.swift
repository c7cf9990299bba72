import Encoding

extension Subscription {
    /// Writes the members of a subscription's status at an instant: its periods, renewal info and transactions with the
    /// positions of the events that reported them.
    package func writeMembers(at instant: Instant, to writer: inout JSONWriter) {
        let renewal = renewal(at: instant)
        let period = period(at: instant)
        writer.member("originalTransactionId", originalTransactionId)
        writer.member("asOf", instant)
        writer.member("status", status(at: instant).rawValue)
        writer.member("active", isActive(at: instant))
        writer.member("productId", period?.productId ?? renewal.productId ?? transactions.last?.transaction.productId)
        if let end = accessEnd(at: instant) { writer.member("accessUntil", end: end) }
        writer.member("consumables", consumables(at: instant))
        if let change = nextChange(after: instant) {
            writer.key("nextChange")
            writer.object { writer in
                writer.member("at", change.at)
                writer.member("status", change.to.rawValue)
                writer.member("renews", change.renews ? true : nil)
            }
        }
        writer.member("willEndAt", plannedEnd(at: instant))
        writer.member("autoRenew", isRenewing(at: instant).map { $0 ? "on" : "off" } ?? "unknown")
        writer.key("renewal")
        renewal.write(to: &writer)
        writer.key("periods")
        writer.array(access) { $1.write(to: &$0) }
        writer.key("lapses")
        writer.array(lapses) { writer, lapse in
            writer.object { writer in
                writer.member("start", lapse.lowerBound)
                writer.member("end", lapse.upperBound)
            }
        }
        writer.key("transactions")
        writer.array(transactions) { writer, resolved in
            writer.object { writer in
                resolved.transaction.writeMembers(to: &writer)
                writer.member("refunded", resolved.settled.isRefunded ? true : nil)
                writer.key("positions")
                writer.array(resolved.positions) { $0.value($1) }
            }
        }
    }
}

extension AccessPeriod {
    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("start", start)
            writer.member("end", end: end)
            writer.member("cause", cause.rawValue)
            writer.member("cut", cut?.rawValue)
            writer.member("transactionId", transactionId)
            writer.member("productId", productId)
            writer.member("position", position)
        }
    }
}

extension JSONWriter {
    /// Writes the end of an interval, or null for ``Instant/latest``, which means that it has no end.
    package mutating func member(_ name: StaticString, end: Instant) {
        key(name)
        if end < .latest { value(end) } else { value(rawJSON: "null") }
    }
}
