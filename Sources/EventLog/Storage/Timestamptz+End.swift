import Encoding
import Postgres

/// Converts starts and ends of intervals: ``Instant/latest``, which means no end, is `infinity` in SQL. As a start,
/// ``Instant/earliest`` means no start and is `-infinity`.
extension Timestamptz {
    package init(end: Instant) {
        self.init(microsecondsSinceUnixEpoch: end < .latest ? end.milliseconds * 1000 : .max)
    }

    package var end: Instant { Instant(milliseconds: microsecondsSinceUnixEpoch / 1000) ?? .latest }

    package init(start: Instant) {
        self.init(microsecondsSinceUnixEpoch: start > .earliest ? start.milliseconds * 1000 : .min)
    }

    package var start: Instant { Instant(milliseconds: microsecondsSinceUnixEpoch / 1000) ?? .earliest }
}
