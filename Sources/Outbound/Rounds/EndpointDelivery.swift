import Encoding
import EventLog
import Logging
import StandardWebhooks
import StoreClient

/// Delivers messages to one endpoint, as long as it is led and its operator changes nothing.
actor EndpointDelivery<Source: MessageSource> {
    private let task: DeliveryLog.Task
    private let source: Source
    private let client: EndpointClient
    private let context: DeliveryContext
    private let wakeUp = WakeUp()
    private var lines: DeliveryLines
    private var progress: DeliveryLog.Progress
    /// Messages that were read and not sent yet.
    private var ahead = MessagesAhead()
    /// The read of messages that were read too long ago, which all attempts wait for.
    private var refresh: Task<Result<Void, ReadError>, Never>?
    private var flights = 0
    /// No message is sent before.
    private var holdUntil: Instant?
    private var hasMore = true
    private var isEnded = false
    private var recordedAt = ContinuousClock.now
    /// When this process was last known to lead the endpoint's stream.
    private var ledAt = ContinuousClock.now

    init(
        _ task: DeliveryLog.Task, _ source: Source, _ client: EndpointClient, place: DeliveryLog.Place,
        _ context: DeliveryContext
    ) {
        self.task = task
        self.source = source
        self.client = client
        self.context = context
        lines = DeliveryLines(cursor: place.number, recorded: place.waiting)
        progress = DeliveryLog.Progress(cursor: place.number, failingSince: place.failingSince)
    }

    private var now: Instant { context.clock.date() }

    /// Runs until its task is cancelled, the lead is lost, an operator changes the endpoint, or the endpoint is disabled.
    /// What was delivered and could not be recorded any more is delivered again by the next one, with the same ids.
    func run() async {
        await withDiscardingTaskGroup { group in
            let listener = Task { await listen() }
            while !Task.isCancelled, !isEnded {
                do throws(ReadError) {
                    guard try await context.leads(task.streamId) else { break }
                    ledAt = .now
                    try await readAhead()
                    send(&group)
                    try await recordIfDue()
                    if isEnded { break }
                    await pause(until: nextInstant)
                } catch {
                    context.note(error, task.endpoint.id)
                    try? await context.clock.sleep(context.clock.now() + Limits.failurePause)
                }
            }
            listener.cancel()
            isEnded = true
            group.cancelAll()
        }
        await context.limit.forget(task.endpoint.id)
        // What came of the attempts in flight is known now.
        guard !progress.attempts.isEmpty || !lines.isRecorded(at: progress.cursor) else { return }
        // A separate task, which a cancellation of this one does not interrupt.
        await Task { _ = try? await record() }.value
    }

    /// Looks for more whenever the feed may have it.
    private func listen() async {
        var mark = await source.mark()
        while !Task.isCancelled {
            await source.wait(since: mark, until: .now + Limits.lookPause)
            mark = await source.mark()
            hasMore = true
            wakeUp.wake()
        }
    }

    private var hasRoom: Bool { lines.hasRoom(heldMax: context.heldMax()) }

    /// How many messages are read next.
    private var pageMax: Int {
        min(
            ahead.pageMax(context.aheadBytesMax()),
            max(Limits.pageMin, context.heldMax() - lines.heldCount))
    }

    private func readAhead() async throws(ReadError) {
        while hasMore, hasRoom {
            hasMore = false
            let before = lines.readThrough
            let page: MessagePage
            do throws(ReadError) {
                page = try await source.page(after: before, limit: pageMax)
            } catch {
                hasMore = true
                throw error
            }
            for message in page.messages { lines.accept(message.number, line: message.line) }
            ahead.add(page.messages.filter { lines.isOpen($0.number) }, bytesMax: context.aheadBytesMax())
            lines.skip(through: page.through)
            if page.through > before { hasMore = true }
            guard !page.messages.isEmpty else { continue }
            return
        }
    }

    /// After a failure, one message at a time: an endpoint that does not answer must not use up what all share.
    private var flightsMax: Int { progress.failingSince == nil ? Limits.endpointFlightsMax : 1 }

    private func send(_ group: inout DiscardingTaskGroup) {
        if let holdUntil, holdUntil > now { return }
        while flights < flightsMax, let message = lines.next(at: now) {
            flights += 1
            group.addTask { await self.attempt(message) }
        }
    }

    /// Makes an attempt, and then others that are due meanwhile: they need not wait until the database has answered to
    /// what else is to be read or recorded.
    private func attempt(_ first: DeliveryLines.Message) async {
        var next: DeliveryLines.Message? = first
        while let message = next {
            let place = await context.limit.enter(task.endpoint.id)
            let failure = await deliver(message)
            await context.limit.leave(place)
            if let failure {
                lines.putBack(message)
                context.note(failure, task.endpoint.id)
                try? await context.clock.sleep(context.clock.now() + Limits.failurePause)
            }
            next = failure != nil || isPaused || flights > flightsMax ? nil : lines.next(at: now)
            if hasMore, hasRoom, lines.openCount <= Limits.readAheadMax / 2 { wakeUp.wake() }
        }
        flights -= 1
        wakeUp.wake()
    }

    /// Whether nothing more is to be sent until the run has looked around.
    private var isPaused: Bool {
        isEnded || Task.isCancelled || progress.disabled != nil || .now - ledAt > Limits.roundPause * 2
            || holdUntil.map { $0 > now } ?? false
    }

    /// - Returns: A failure of the database, which leaves the message as it was.
    private func deliver(_ message: DeliveryLines.Message) async -> ReadError? {
        guard !Task.isCancelled else {
            lines.putBack(message)
            return nil
        }
        let found: SourceMessage?
        do throws(ReadError) {
            found = try await current(message)
        } catch {
            return error
        }
        guard let found else {
            // It is no longer there, or only a newer release knows it.
            lines.settle(message, .delivered)
            return nil
        }
        guard !found.isLost else {
            lose(message)
            return nil
        }
        let (began, start) = (now, context.clock.now())
        if let outcome = await post(found, at: began) {
            settle(message, outcome, began, context.clock.now() - start)
        } else {
            lines.putBack(message)
        }
        return nil
    }

    /// The message as it is now; nil if there is none any more.
    private func current(_ message: DeliveryLines.Message) async throws(ReadError) -> SourceMessage? {
        if let found = ahead.take(message.number) { return found }
        // What waited for long is sent alone.
        guard !message.isRecorded else { return try await source.message(message.number) }
        let reading = refresh ?? readAgain(after: message.number - 1)
        try await reading.value.get()
        if let found = ahead.take(message.number) { return found }
        return try await source.message(message.number)
    }

    /// Reads messages that are open again: those that were read together are too old together.
    private func readAgain(after number: Int64) -> Task<Result<Void, ReadError>, Never> {
        let reading = Task { () -> Result<Void, ReadError> in
            defer { refresh = nil }
            do throws(ReadError) {
                let bytesMax = context.aheadBytesMax()
                let page = try await source.page(after: number, limit: ahead.pageMax(bytesMax))
                ahead.add(page.messages.filter { lines.isOpen($0.number) }, bytesMax: bytesMax)
                return .success(())
            } catch {
                return .failure(error)
            }
        }
        refresh = reading
        return reading
    }

    private func post(_ message: SourceMessage, at now: Instant) async -> AttemptOutcome? {
        var headers = message.headers
        if task.endpoint.signature != .none {
            let keys = context.keys(task.endpoint)
            guard !keys.isEmpty else { return AttemptOutcome(.noKey) }
            headers += WebhookHeaders(signing: message.body, id: message.id, at: now.foundationDate, with: keys).fields
        }
        return await client.post(OutboundRequest(headers: headers, body: message.body))
    }

    private func settle(
        _ message: DeliveryLines.Message, _ outcome: AttemptOutcome, _ began: Instant, _ duration: Duration
    ) {
        context.metrics.note(outcome.class, of: task.endpoint.purpose)
        progress.attempts.append(
            Attempt(
                at: began, number: message.number, result: outcome.class.rawValue, status: outcome.status,
                milliseconds: Int(duration / .milliseconds(1))))
        if outcome.isSuccess {
            if progress.failingSince != nil { context.log(.info, "endpoint answers again", task.endpoint) }
            progress.failingSince = nil
            progress.succeededAt = max(progress.succeededAt ?? began, began)
            return lines.settle(message, .delivered)
        }
        let now = now
        if let hold = outcome.hold { holdUntil = max(holdUntil ?? now, now.advanced(by: hold)) }
        if progress.failingSince == nil { context.log(.warning, "endpoint fails", task.endpoint, outcome) }
        let since = progress.failingSince ?? now
        progress.failingSince = since
        if outcome.class == .gone {
            progress.disabled = .gone
        } else if since.duration(to: now) >= Limits.failingTimeMax {
            progress.disabled = progress.disabled ?? .failing
        }
        if let pause = context.plan.pause(
            after: message.attempts + 1, part: context.random(), retryAfter: outcome.retryAfter)
        {
            lines.settle(message, .failed(now.advanced(by: pause)))
        } else {
            lines.settle(message, .exhausted)
            context.log(.warning, "message not delivered", task.endpoint, outcome, number: message.number)
        }
    }

    /// Gives up a message of which there is nothing to send. The endpoint has not failed.
    private func lose(_ message: DeliveryLines.Message) {
        let outcome = AttemptOutcome(.bodyLost)
        context.metrics.note(outcome.class, of: task.endpoint.purpose)
        progress.attempts.append(
            Attempt(
                at: now, number: message.number, result: outcome.class.rawValue, status: nil, milliseconds: 0))
        lines.settle(message, .lost)
        context.log(
            .error, "notification not passed on: its body is lost", task.endpoint, outcome, number: message.number)
    }

    // MARK: Recording

    private func recordIfDue() async throws(ReadError) {
        guard progress.disabled == nil else {
            _ = try await record()
            isEnded = true
            return
        }
        guard !progress.attempts.isEmpty || lines.cursor > progress.cursor else { return }
        guard
            flights == 0 || progress.attempts.count >= Limits.recordedAttemptsMax
                || recordedAt + Limits.recordInterval <= .now
        else { return }
        if try await !record() { isEnded = true }
    }

    /// - Returns: False if another process has changed the endpoint.
    private func record() async throws(ReadError) -> Bool {
        var written = progress
        written.cursor = lines.cursor
        written.records = lines.takeRecords()
        progress.attempts = []
        progress.cursor = written.cursor
        recordedAt = .now
        do throws(ReadError) {
            let isRecorded = try await context.record.record(written, of: task, at: now)
            if isRecorded, let reason = written.disabled {
                context.log(.warning, "endpoint disabled", task.endpoint, reason: reason)
            }
            return isRecorded
        } catch {
            lines.putBack(written.records)
            progress.attempts = written.attempts + progress.attempts
            // The cursor is written again with the next record.
            progress.cursor = min(progress.cursor, written.cursor - 1)
            throw error
        }
    }

    // MARK: Waiting

    /// When there is something to do without being woken.
    private var nextInstant: ContinuousClock.Instant {
        let steady = context.clock.now()
        var next = steady + Limits.roundPause
        let now = now
        if let due = lines.nextDue, flights < flightsMax {
            next = min(next, steady + now.duration(to: max(due, holdUntil ?? due)))
        }
        if !progress.attempts.isEmpty { next = min(next, steady + Limits.recordInterval) }
        return next
    }

    private func pause(until instant: ContinuousClock.Instant) async {
        if hasMore, hasRoom { return await Task.yield() }
        let timer = Task { [context, wakeUp] in
            try? await context.clock.sleep(instant)
            if !Task.isCancelled { wakeUp.wake() }
        }
        await wakeUp.wait()
        timer.cancel()
    }
}

/// Messages that were read and not sent yet, by number. What does not fit in the given number of bytes is left out, and read
/// again when it is sent.
private struct MessagesAhead {
    private var messages: [Int64: (message: SourceMessage, at: ContinuousClock.Instant)] = [:]
    private var bytes = 0
    /// The usual size of a message.
    private var usualBytes = 2048

    /// How many messages are read at once, so that they fit.
    func pageMax(_ bytesMax: Int) -> Int { max(1, min(Limits.pageMax, bytesMax / usualBytes)) }

    mutating func add(_ read: [SourceMessage], bytesMax: Int) {
        let now = ContinuousClock.now
        for message in read {
            remove(message.number)
            usualBytes = max(1, (7 * usualBytes + message.body.count) / 8)
            if bytes + message.body.count > bytesMax { removeOld() }
            guard bytes + message.body.count <= bytesMax else { return }
            messages[message.number] = (message, now)
            bytes += message.body.count
        }
    }

    /// Removes a message and returns it, unless it was read too long ago.
    mutating func take(_ number: Int64) -> SourceMessage? {
        guard let found = remove(number), !found.isOld else { return nil }
        return found.message
    }

    @discardableResult
    private mutating func remove(_ number: Int64) -> (message: SourceMessage, isOld: Bool)? {
        guard let found = messages.removeValue(forKey: number) else { return nil }
        bytes -= found.message.body.count
        return (found.message, .now - found.at > Limits.messageAgeMax)
    }

    private mutating func removeOld() {
        for (number, found) in messages where .now - found.at > Limits.messageAgeMax { remove(number) }
    }
}
