import Logging
import Subscriptions

extension StreamKey {
    /// What a log line about the stream has, with more.
    func metadata(_ more: Logger.Metadata = [:]) -> Logger.Metadata {
        more.merging(["stream.app": "\(app)", "stream.environment": "\(environment.rawValue)"]) { $1 }
    }
}
