import AppStore
import Encoding
import Synchronization

/// The bearer tokens in use, one for each app, and which of them a host has rejected.
final class ServerAPITokens: Sendable {
    private struct Place: Sendable, Hashable {
        let app: String
        let host: ReceiptHost
    }

    private struct State: Sendable {
        /// By bundle id.
        var tokens: [String: (text: String, key: ServerAPIKey, madeAt: ContinuousClock.Instant)] = [:]
        var rejectedUntil: [Place: ContinuousClock.Instant] = [:]
    }

    private let state = Mutex(State())

    /// The app's token, made again if it is old or was dropped.
    ///
    /// - Parameters:
    ///   - key: The app's key.
    ///   - date: Our clock.
    func token(
        of app: String, _ key: ServerAPIKey, at now: ContinuousClock.Instant, _ date: Instant
    ) throws -> String {
        try state.withLock { state in
            if let known = state.tokens[app], known.key == key, now - known.madeAt < Limits.apiTokenAgeMax {
                return known.text
            }
            let text = try key.token(for: app, at: date)
            state.tokens[app] = (text, key, now)
            return text
        }
    }

    /// Lets the next call make a new token, unless another call has done so already.
    func drop(_ token: String, of app: String) {
        state.withLock { state in
            if state.tokens[app]?.text == token { state.tokens[app] = nil }
        }
    }

    /// Stops the app's calls to a host for a while.
    func reject(_ app: String, _ host: ReceiptHost, at now: ContinuousClock.Instant) {
        state.withLock { $0.rejectedUntil[Place(app: app, host: host)] = now + Limits.keyRejectedPause }
    }

    func isRejected(_ app: String, _ host: ReceiptHost, at now: ContinuousClock.Instant) -> Bool {
        state.withLock { $0.rejectedUntil[Place(app: app, host: host)].map { now < $0 } ?? false }
    }
}
