import Logging
import Synchronization

/// Collects every log line with all of its metadata.
package final class LogRecorder: Sendable {
    private let lines = Mutex<[String]>([])

    package init() {}

    package var text: String { lines.withLock { $0.joined(separator: "\n") } }

    package var logger: Logger {
        var logger = Logger(label: "test", factory: { _ in Handler(recorder: self) })
        logger.logLevel = .trace
        return logger
    }

    private struct Handler: LogHandler {
        let recorder: LogRecorder
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.trace

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            let all = metadata.merging(event.metadata ?? [:]) { $1 }
            recorder.lines.withLock { $0.append("\(event.level) \(event.message) \(all)") }
        }
    }
}
