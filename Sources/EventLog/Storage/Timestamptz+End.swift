import Encoding
import Postgres

/// Converts ends of periods: ``Instant/latest``, which means no end, is `infinity` in SQL.
extension Timestamptz {
    package init(end: Instant) {
        self.init(microsecondsSinceUnixEpoch: end < .latest ? end.milliseconds * 1000 : .max)
    }

    package var end: Instant { Instant(milliseconds: microsecondsSinceUnixEpoch / 1000) ?? .latest }
}
