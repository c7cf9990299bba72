/// Splits one direction of a PostgreSQL connection into messages.
///
/// Source: PostgreSQL, "Message Formats": one byte for the kind, then four bytes for the length, which counts itself and
/// the content. The first messages of a client have no kind.
struct ProtocolMessages {
    /// The kinds of messages that the proxy distinguishes. They are the client's unless noted.
    enum Kind {
        static let startup = UInt8(0)
        static let parse = UInt8(ascii: "P")
        static let bind = UInt8(ascii: "B")
        static let execute = UInt8(ascii: "E")
        static let sync = UInt8(ascii: "S")
        /// Sent by the server.
        static let commandComplete = UInt8(ascii: "C")
    }

    struct Message {
        let kind: UInt8
        /// The whole message, including its head.
        let bytes: [UInt8]

        /// The zero-terminated texts at the beginning of the message.
        func texts(_ count: Int) -> [String] {
            let body = bytes.dropFirst(kind == Kind.startup ? 4 : 5)
            return body.split(separator: 0, maxSplits: count, omittingEmptySubsequences: false).prefix(count)
                .map { String(decoding: $0, as: UTF8.self) }
        }

        /// The `application_name` in a startup message, which has names and values after the version.
        var applicationName: String? {
            guard kind == Kind.startup, bytes.count > 8 else { return nil }
            let texts = bytes.dropFirst(8).split(separator: 0, omittingEmptySubsequences: false)
                .map { String(decoding: $0, as: UTF8.self) }
            return texts.firstIndex(of: "application_name").flatMap { $0 + 1 < texts.count ? texts[$0 + 1] : nil }
        }

        /// A client's request for encryption, which comes before the startup message.
        var asksForEncryption: Bool {
            // The codes of SSLRequest and GSSENCRequest.
            kind == Kind.startup && bytes.count == 8 && bytes[4...6] == [0x04, 0xD2, 0x16]
                && (bytes[7] == 0x2F || bytes[7] == 0x30)
        }
    }

    private var buffer: [UInt8] = []
    /// The beginning of an incomplete message.
    var unfinished: [UInt8] { buffer }
    /// Until the real startup message, a client's messages have no kind.
    private var isStarted: Bool

    init(ofClient: Bool) {
        isStarted = !ofClient
    }

    mutating func append(_ bytes: some Sequence<UInt8>) {
        buffer += bytes
    }

    /// The next complete message.
    mutating func next() -> Message? {
        let head = isStarted ? 1 : 0
        guard buffer.count >= head + 4 else { return nil }
        let length = buffer[head..<head + 4].reduce(0) { $0 << 8 | Int($1) }
        let end = head + max(4, length)
        guard buffer.count >= end else { return nil }
        let message = Message(kind: isStarted ? buffer[0] : Kind.startup, bytes: Array(buffer[..<end]))
        buffer.removeFirst(end)
        if !isStarted, !message.asksForEncryption { isStarted = true }
        return message
    }
}

/// Follows a client's messages to find its commits.
struct CommitWatch {
    private var commits: Set<String> = []
    private var isBound = false
    private var isExecuted = false

    enum Step {
        /// This message begins the commit.
        case isNext
        /// This message completes the commit request.
        case isSent
    }

    /// The role of a message in a commit; nil if it has none.
    mutating func step(of message: ProtocolMessages.Message) -> Step? {
        switch message.kind {
        case ProtocolMessages.Kind.parse:
            let texts = message.texts(2)
            if texts.count == 2, texts[1].lowercased() == "commit" { commits.insert(texts[0]) }
        case ProtocolMessages.Kind.bind:
            // The name of the portal, then that of the statement.
            isBound = message.texts(2).last.map(commits.contains) ?? false
            return isBound ? .isNext : nil
        case ProtocolMessages.Kind.execute:
            isExecuted = isExecuted || isBound
        case ProtocolMessages.Kind.sync:
            defer { isExecuted = false }
            return isExecuted ? .isSent : nil
        default: break
        }
        return nil
    }
}
