import Logging

/// Writes each log event on one line. Control characters, which could start a new line or move a terminal's cursor, are
/// escaped as `\n` or `\u{1b}`.
struct OneLineLogHandler: LogHandler {
    private var base: any LogHandler

    init(_ base: any LogHandler) {
        self.base = base
    }

    var logLevel: Logger.Level {
        get { base.logLevel }
        set { base.logLevel = newValue }
    }

    var metadata: Logger.Metadata {
        get { base.metadata }
        set { base.metadata = Self.escaped(newValue) }
    }

    var metadataProvider: Logger.MetadataProvider? {
        get { base.metadataProvider }
        set { base.metadataProvider = newValue }
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { base[metadataKey: key] }
        set { base[metadataKey: Self.escaped(key)] = newValue.map(Self.escaped) }
    }

    func log(event: LogEvent) {
        var event = event
        event.message = "\(Self.escaped(event.message.description))"
        event.metadata = event.metadata.map(Self.escaped)
        // The base handler would write the error unescaped.
        if let error = event.error {
            event.error = nil
            event.metadata = (event.metadata ?? [:]).merging(["error.message": .string(Self.escaped("\(error)"))]) {
                own, _ in own
            }
        }
        base.log(event: event)
    }

    private static func escaped(_ metadata: Logger.Metadata) -> Logger.Metadata {
        Dictionary(metadata.map { (escaped($0.key), escaped($0.value)) }, uniquingKeysWith: { first, _ in first })
    }

    private static func escaped(_ value: Logger.MetadataValue) -> Logger.MetadataValue {
        switch value {
        case .string(let text): .string(escaped(text))
        case .stringConvertible(let value): .string(escaped(value.description))
        case .dictionary(let values): .dictionary(escaped(values))
        case .array(let values): .array(values.map(escaped))
        }
    }

    static func escaped(_ text: String) -> String {
        // Nearly all values are printable ASCII.
        if text.utf8.allSatisfy({ (0x20..<0x7f).contains($0) }) { return text }
        var result = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\n": result += "\\n"
            case "\r": result += "\\r"
            case "\t": result += "\\t"
            case _ where breaksLine(scalar): result += "\\u{\(String(scalar.value, radix: 16))}"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }

    private static func breaksLine(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator: true
        // Direction marks, which change how a line is displayed.
        case .format: true
        default: false
        }
    }
}
