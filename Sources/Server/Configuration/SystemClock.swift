import Encoding
import Foundation

/// The wall clock. All other code receives the time as an argument.
package enum SystemClock {
    @Sendable package static func now() -> Instant {
        Instant(milliseconds: Int64(Date().timeIntervalSince1970 * 1000)) ?? .latest
    }
}
