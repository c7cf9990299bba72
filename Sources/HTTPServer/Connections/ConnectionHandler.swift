import NIOCore
import NIOHTTP1

/// Enforces the limits of one connection: how long it may be idle, how long a request may take to arrive, how long the
/// peer may take to read a response, and when the connection is closed.
///
/// Its place in the pipeline is between the HTTP/1.1 codec and the framework. All deadlines share one scheduled task,
/// which is replaced only for an earlier deadline, so a request that arrives in one read needs no timer.
final class ConnectionHandler: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    /// A route starts to read the body of the request.
    struct BodyWanted: Sendable {}

    /// The body is no longer wanted; its reader receives the failure.
    struct BodyUnwanted: Sendable {
        let failure: BodyReader.Failure
    }

    /// Another connection needs the place of this one.
    struct Displaced: Sendable {}

    private enum Input {
        /// Requests are read.
        case open
        /// The request being received is the last one.
        case lastRequest
        /// Further bytes are discarded.
        case ignored
    }

    private let connection: Connection
    private var input = Input.open
    /// The head of a request has been read, but not its end.
    private var isReceiving = false
    private var hasBodyFailed = false
    private var expectsContinue = false
    private var isServerEnding = false
    /// Requests whose responses are not written yet, including the one being received.
    private var unanswered = 0
    /// When the peer last started to send requests before it had the responses to earlier ones; nil if it does not.
    private var pipeliningSince: NIODeadline?
    private var closesAfterAnswer = false
    /// The last response is written, and the peer's remaining bytes are read for a short time: closing a socket with
    /// unread bytes may destroy a response in transit.
    private var isLingering = false
    private var isAnswerWritten = false
    /// The head of a response is written, and not its end.
    private var isWritingAnswer = false
    /// Another connection needed the place before this one could be written to.
    private var isDisplacedEarly = false
    private var lingerBytes = 0
    /// When the current state began, or the request being received.
    private var since = NIODeadline.now()
    private var bodyDue = NIODeadline.distantFuture
    private var unwritableSince: NIODeadline?
    private var scheduled: (task: Scheduled<Void>, due: NIODeadline)?

    init(connection: Connection) {
        self.connection = connection
    }

    func handlerAdded(context: ChannelHandlerContext) {
        schedule(context)
    }

    func channelActive(context: ChannelHandlerContext) {
        connection.hasStarted()
        schedule(context)
        context.fireChannelActive()
        if isDisplacedEarly { displace(context) }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        scheduled?.task.cancel()
        scheduled = nil
        connection.hasClosed()
    }

    func channelInactive(context: ChannelHandlerContext) {
        scheduled?.task.cancel()
        scheduled = nil
        connection.hasEnded()
        connection.hasClosed()
        context.fireChannelInactive()
    }
}

// MARK: - Requests

extension ConnectionHandler {
    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard input != .ignored else { return discard(unwrapInboundIn(data), context) }
        switch unwrapInboundIn(data) {
        case .head(let head):
            guard head.hasOneHost else {
                // The framework responds as to an unparsable request: 400, after the responses to earlier requests.
                input = .ignored
                context.fireErrorCaught(HTTPParserError.invalidHeaderToken)
                return
            }
            begin(head)
        case .body:
            if hasBodyFailed { return }
        case .end:
            isReceiving = false
            if input == .lastRequest { input = .ignored }
            if hasBodyFailed { return }
            updatePlace()
        }
        context.fireChannelRead(data)
    }

    private func begin(_ head: HTTPRequestHead) {
        since = .now()
        isReceiving = true
        hasBodyFailed = false
        unanswered += 1
        if unanswered > 1, pipeliningSince == nil { pipeliningSince = since }
        expectsContinue = head.expectsContinue
        bodyDue = since + (isServerEnding ? Limits.bodyWaitAtEndMax : Limits.bodyWaitMax)
        if !head.staysOpen { input = .lastRequest }
        updatePlace()
    }

    private func discard(_ part: HTTPServerRequestPart, _ context: ChannelHandlerContext) {
        switch part {
        case .head: break
        case .body(let bytes):
            lingerBytes += bytes.readableBytes
            if isLingering, lingerBytes > Limits.lingerBytesMax { close(context) }
        case .end:
            isReceiving = false
            if isAnswerWritten { close(context) }
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        // Most requests arrive in one read and need no deadline.
        if isReceiving { schedule(context) }
        context.fireChannelReadComplete()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if event is ChannelShouldQuiesceEvent {
            isServerEnding = true
            bodyDue = min(bodyDue, NIODeadline.now() + Limits.bodyWaitAtEndMax)
            schedule(context)
        } else if isLingering, case ChannelEvent.inputClosed? = event as? ChannelEvent {
            return close(context)
        }
        context.fireUserInboundEventTriggered(event)
    }

    func triggerUserOutboundEvent(context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?) {
        switch event {
        case is BodyWanted:
            if isReceiving, expectsContinue {
                let head = HTTPResponseHead(version: .http1_1, status: .continue)
                context.writeAndFlush(wrapOutboundOut(.head(head)), promise: nil)
            }
            expectsContinue = false
            promise?.succeed()
        case let event as BodyUnwanted:
            if isReceiving { failBody(event.failure, context) }
            promise?.succeed()
        case is Displaced:
            isDisplacedEarly = !context.channel.isActive
            if !isDisplacedEarly { displace(context) }
            promise?.succeed()
        default: context.triggerUserOutboundEvent(event, promise: promise)
        }
    }

    /// The route responds, and the connection is closed after the response.
    private func failBody(_ failure: BodyReader.Failure, _ context: ChannelHandlerContext) {
        guard !hasBodyFailed else { return }
        hasBodyFailed = true
        if input == .open { input = .lastRequest }
        context.fireErrorCaught(failure)
    }
}

// MARK: - Responses

extension ConnectionHandler {
    /// Closes the connection, with 503 unless the peer has its response, or a part of it.
    private func displace(_ context: ChannelHandlerContext) {
        defer { close(context) }
        guard unanswered > 0 || !connection.hasBeenAnswered, !isWritingAnswer, !isLingering, context.channel.isWritable
        else { return }
        let headers: HTTPHeaders = [
            "content-length": "0", "connection": "close", "retry-after": "\(Limits.retryAfterSeconds)",
        ]
        let head = HTTPResponseHead(version: .http1_1, status: .serviceUnavailable, headers: headers)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    }
}

extension ConnectionHandler {
    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        switch unwrapOutboundIn(data) {
        case .head(var head):
            isWritingAnswer = true
            if mustCloseAfterAnswer {
                closesAfterAnswer = true
                head.headers.replaceOrAdd(name: "connection", value: "close")
            }
            context.write(wrapOutboundOut(.head(head)), promise: promise)
        case .body: context.write(data, promise: promise)
        case .end: end(data, promise, context)
        }
    }

    private var mustCloseAfterAnswer: Bool {
        // Without a request, this is the response to bytes that cannot be parsed.
        if unanswered == 0 || isServerEnding || connection.isPlaceNeeded { return true }
        return unanswered == 1 && (isReceiving || input != .open)
    }

    private func end(_ data: NIOAny, _ promise: EventLoopPromise<Void>?, _ context: ChannelHandlerContext) {
        isWritingAnswer = false
        connection.noteAnswer()
        unanswered = max(0, unanswered - 1)
        if unanswered < 2 { pipeliningSince = nil }
        guard closesAfterAnswer else {
            since = .now()
            updatePlace()
            schedule(context)
            return context.write(data, promise: promise)
        }
        let wasReadWhole = !isReceiving && unanswered == 0 && input != .open
        input = .ignored
        isLingering = true
        since = .now()
        updatePlace()
        schedule(context)
        let written = promise ?? context.eventLoop.makePromise()
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        written.futureResult.whenComplete { _ in
            let (handler, context) = bound.value
            handler.isAnswerWritten = true
            if wasReadWhole {
                context.close(promise: nil)
            } else {
                context.close(mode: .output, promise: nil)
            }
        }
        context.writeAndFlush(data, promise: written)
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        unwritableSince = context.channel.isWritable ? nil : .now()
        updatePlace()
        schedule(context)
        context.fireChannelWritabilityChanged()
    }
}

// MARK: - Deadlines

extension ConnectionHandler {
    private func updatePlace() {
        if let unwritableSince {
            connection.peerKeepsUsWaiting(since: unwritableSince)
        } else if let pipeliningSince {
            connection.peerKeepsUsWaiting(since: pipeliningSince)
        } else if unanswered > (isReceiving ? 1 : 0), !isLingering {
            connection.peerWaitsForAnswer()
        } else {
            connection.peerKeepsUsWaiting(since: since)
        }
    }

    /// Nil while the peer waits for the server.
    private var due: NIODeadline? {
        if isLingering { return since + (unwritableSince == nil ? Limits.lingerMax : Limits.idleTimeout) }
        if let unwritableSince { return unwritableSince + Limits.idleTimeout }
        if isReceiving { return hasBodyFailed ? bodyDue + Limits.idleTimeout : bodyDue }
        return unanswered > 0 ? nil : since + Limits.idleTimeout
    }

    private func schedule(_ context: ChannelHandlerContext) {
        guard let due, context.channel.isActive else { return }
        if let scheduled {
            if scheduled.due <= due { return }
            scheduled.task.cancel()
        }
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        let task = context.eventLoop.scheduleTask(deadline: due) {
            let (handler, context) = bound.value
            handler.scheduled = nil
            handler.look(context)
        }
        scheduled = (task, due)
    }

    private func look(_ context: ChannelHandlerContext) {
        guard let due else { return }
        guard due <= .now() else { return schedule(context) }
        if isReceiving, !hasBodyFailed, !isLingering, unwritableSince == nil {
            failBody(isServerEnding ? .ending : .tooSlow, context)
            return schedule(context)
        }
        if !isLingering { connection.noteClose(unwritableSince == nil ? .idle : .answerUnread) }
        close(context)
    }

    private func close(_ context: ChannelHandlerContext) {
        context.triggerUserOutboundEvent(SocketEnd.Close(), promise: nil)
    }
}

extension HTTPRequestHead {
    /// Source: RFC 9112, section 3.2: an HTTP/1.1 request with no Host, or with several, receives 400.
    fileprivate var hasOneHost: Bool {
        let count = headers["host"].count
        return isPersistent ? count == 1 : count <= 1
    }

    /// Whether the version is HTTP/1.1 or a later minor version.
    private var isPersistent: Bool { version.major == 1 && version.minor >= 1 }

    /// An HTTP/1.0 client may request a persistent connection; a server need not grant it.
    fileprivate var staysOpen: Bool { isPersistent && isKeepAlive }

    /// Source: RFC 9110, section 10.1.1: the expectation is ignored in HTTP/1.0.
    fileprivate var expectsContinue: Bool {
        isPersistent && headers["expect"].contains { $0.lowercased() == "100-continue" }
    }
}
