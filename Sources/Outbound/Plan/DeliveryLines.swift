import Encoding

/// The messages of an endpoint that are not settled, in order for each line: a line is a subscription, whose messages are
/// sent one after the other.
///
/// A message that fails waits, and with it what follows in its line; other lines go on. What waits is recorded, so the
/// cursor can pass it. A value: what happens is decided here, and done elsewhere.
package struct DeliveryLines: Sendable {
    package struct Message: Sendable, Hashable {
        /// Its number in the feed.
        package let number: Int64
        package let line: String
        /// How often it was sent without success.
        package var attempts: Int
        /// When it is due; nil if it waits for the messages before it in its line, or is due at once.
        package var dueAt: Instant?
        /// Whether the database has a row that says that it waits.
        package var isRecorded: Bool
        /// Whether it was given up because there is nothing to send.
        package var isLost = false

        package init(
            number: Int64, line: String, attempts: Int = 0, dueAt: Instant? = nil, isRecorded: Bool = false
        ) {
            self.number = number
            self.line = line
            self.attempts = attempts
            self.dueAt = dueAt
            self.isRecorded = isRecorded
        }
    }

    /// What is to be recorded since the last time.
    package struct Records: Sendable, Hashable {
        /// Messages that wait, in their present state.
        package var waiting: [Int64: Message] = [:]
        /// Messages that were given up: their attempts are used up, or they are lost. They are kept to be sent again on
        /// request.
        package var exhausted: [Int64: Message] = [:]
        /// Messages that no longer wait.
        package var removed: Set<Int64> = []

        package var isEmpty: Bool { waiting.isEmpty && exhausted.isEmpty && removed.isEmpty }
    }

    private struct Line {
        /// In the order of their numbers. The first one may be in flight.
        var messages: ArraySlice<Message> = []
        var isInFlight = false
    }

    private var lines: [String: Line] = [:]
    /// The lines whose first message is due, in the order in which they became so. Each line is here, in ``timed``, or in
    /// flight.
    private var ready: ArraySlice<String> = []
    /// The lines that wait for an instant, the earliest last.
    private var timed: [(at: Instant, line: String)] = []
    /// The numbers after the cursor that are neither settled nor recorded, and those of them that meanwhile are.
    private var open: ArraySlice<Int64> = []
    private var closed: Set<Int64> = []
    /// The feed was read up to here.
    package private(set) var readThrough: Int64
    /// The number of messages that are recorded as waiting.
    package private(set) var recordedCount = 0
    /// The number of lines whose first message is recorded as waiting.
    package private(set) var waitingLineCount = 0
    private var records = Records()

    /// - Parameters:
    ///   - cursor: All messages up to it are settled or recorded.
    ///   - recorded: The recorded messages that wait, in the order of their numbers.
    package init(cursor: Int64, recorded: [Message]) {
        readThrough = cursor
        for message in recorded {
            var message = message
            message.isRecorded = true
            recordedCount += 1
            append(message)
        }
    }

    /// All messages up to this number are settled or recorded.
    package var cursor: Int64 { open.first.map { $0 - 1 } ?? readThrough }

    /// Messages that are neither settled nor recorded.
    package var openCount: Int { open.count }

    /// Whether a message is neither settled nor recorded.
    package func isOpen(_ number: Int64) -> Bool {
        guard !closed.contains(number) else { return false }
        var (low, high) = (open.startIndex, open.endIndex)
        while low < high {
            let middle = (low + high) / 2
            if open[middle] < number { low = middle + 1 } else { high = middle }
        }
        return low < open.endIndex && open[low] == number
    }

    /// When the next line becomes due that waits for an instant.
    package var nextDue: Instant? { timed.last?.at }

    /// Whether a message can be sent now.
    package func isDue(at now: Instant) -> Bool { !ready.isEmpty || timed.last.map { $0.at <= now } ?? false }

    /// The messages that are kept in memory: those that are open, and those that are recorded as waiting.
    package var heldCount: Int { open.count + recordedCount }

    /// Whether more of the feed may be read.
    ///
    /// - Parameter heldMax: Most messages that are kept. What was kept before stays, even if it is more.
    package func hasRoom(heldMax: Int = .max) -> Bool {
        open.count < Limits.readAheadMax && waitingLineCount < Limits.waitingLinesMax
            && recordedCount < Limits.waitingMax && heldCount < heldMax
    }

    // MARK: What arrives

    /// Adds a message of the feed. Numbers ascend.
    package mutating func accept(_ number: Int64, line: String) {
        precondition(number > readThrough, "messages are read in order")
        readThrough = number
        var message = Message(number: number, line: line)
        // It waits for others that are recorded, so it is recorded too.
        if let first = lines[line]?.messages.first, first.isRecorded {
            record(&message)
        } else {
            open.append(number)
        }
        append(message)
    }

    /// Everything up to a number was read; what was not accepted is of no interest to the endpoint.
    package mutating func skip(through number: Int64) { readThrough = max(readThrough, number) }

    private mutating func append(_ message: Message) {
        let isFirst = lines[message.line]?.messages.isEmpty ?? true
        lines[message.line, default: Line()].messages.append(message)
        if isFirst {
            if message.isRecorded { waitingLineCount += 1 }
            schedule(message)
        }
    }

    private mutating func schedule(_ message: Message) {
        guard let dueAt = message.dueAt else { return ready.append(message.line) }
        // The latest come first.
        var (low, high) = (0, timed.count)
        while low < high {
            let middle = (low + high) / 2
            if timed[middle].at > dueAt { low = middle + 1 } else { high = middle }
        }
        timed.insert((dueAt, message.line), at: low)
    }

    // MARK: What is sent

    /// The next message to send; its line is in flight until ``settle(_:_:)`` or ``putBack(_:)``.
    package mutating func next(at now: Instant) -> Message? {
        while let first = timed.last, first.at <= now {
            timed.removeLast()
            ready.append(first.line)
        }
        guard let line = ready.popFirst(), let message = lines[line]?.messages.first else { return nil }
        lines[line]?.isInFlight = true
        return message
    }

    /// The message was not sent: its line is as before.
    package mutating func putBack(_ message: Message) {
        lines[message.line]?.isInFlight = false
        ready.append(message.line)
    }

    package enum Settlement: Sendable, Hashable {
        case delivered
        /// It is sent again at this instant.
        case failed(Instant)
        /// Its attempts are used up. Its line goes on.
        case exhausted
        /// There is nothing to send. Its line goes on.
        case lost
    }

    /// Says what came of the message that ``next(at:)`` returned.
    package mutating func settle(_ message: Message, _ settlement: Settlement) {
        guard var line = lines[message.line], line.isInFlight, var first = line.messages.popFirst() else { return }
        line.isInFlight = false
        switch settlement {
        case .failed(let next):
            if !first.isRecorded { waitingLineCount += 1 }
            first.attempts += 1
            first.dueAt = next
            settleOpen(first)
            record(&first)
            // Those after it wait as well.
            line.messages = ArraySlice(
                line.messages.map { message in
                    guard !message.isRecorded else { return message }
                    var message = message
                    settleOpen(message)
                    record(&message)
                    return message
                })
            line.messages.insert(first, at: line.messages.startIndex)
            lines[message.line] = line
            schedule(first)
        case .delivered, .exhausted, .lost:
            if first.isRecorded {
                recordedCount -= 1
                waitingLineCount -= 1
                records.waiting[first.number] = nil
                if settlement == .delivered { records.removed.insert(first.number) }
            } else {
                settleOpen(first)
            }
            if settlement != .delivered {
                if settlement == .exhausted { first.attempts += 1 }
                first.isLost = settlement == .lost
                records.exhausted[first.number] = first
            }
            guard let next = line.messages.first else {
                lines[message.line] = nil
                return
            }
            lines[message.line] = line
            if next.isRecorded { waitingLineCount += 1 }
            schedule(next)
        }
    }

    private mutating func record(_ message: inout Message) {
        if !message.isRecorded { recordedCount += 1 }
        message.isRecorded = true
        records.waiting[message.number] = message
    }

    private mutating func settleOpen(_ message: Message) {
        guard !message.isRecorded else { return }
        closed.insert(message.number)
        while let first = open.first, closed.remove(first) != nil { open.removeFirst() }
    }

    /// What is to be recorded together with the cursor. Returns it once.
    package mutating func takeRecords() -> Records {
        defer { records = Records() }
        return records
    }

    /// Whether nothing is to be recorded if the cursor was recorded as this number.
    package func isRecorded(at number: Int64) -> Bool { records.isEmpty && cursor <= number }

    /// Records could not be written: they are returned again, unless they were replaced.
    package mutating func putBack(_ old: Records) {
        var merged = old
        for number in records.removed {
            merged.waiting[number] = nil
            merged.removed.insert(number)
        }
        merged.waiting.merge(records.waiting) { $1 }
        for (number, message) in records.exhausted {
            merged.waiting[number] = nil
            merged.exhausted[number] = message
        }
        records = merged
    }
}
