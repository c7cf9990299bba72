import Encoding
import Foundation

/// The wall clock. Everything else is handed its time.
enum SystemClock {
    @Sendable static func now() -> Instant {
        Instant(milliseconds: Int64(Date().timeIntervalSince1970 * 1000)) ?? .latest
    }
}
