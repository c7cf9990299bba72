import Hummingbird
import NIOCore
import Synchronization

/// Collects request bodies within bounds: of one body, of the time it takes, and of all bodies together.
final class BodyReader: Sendable {
    enum Failure: Error {
        case tooLarge
        case tooSlow
        /// Too many bytes are held for other requests.
        case noRoom
        /// The sender went away.
        case incomplete
    }

    private let held = Mutex(0)

    /// Collects the body and passes it on; the bytes count as held until that returns.
    func withBody<Value>(
        of request: Request, _ use: ([UInt8]) async throws -> Value
    ) async throws -> Value {
        if let announced = request.headers[.contentLength].flatMap({ Int($0) }), announced > Limits.bodyBytesMax {
            throw Failure.tooLarge
        }
        var body: [UInt8] = []
        defer { held.withLock { $0 -= body.count } }
        let deadline = ContinuousClock.now + Limits.bodyWaitMax
        do {
            for try await part in request.body {
                guard body.count + part.readableBytes <= Limits.bodyBytesMax else { throw Failure.tooLarge }
                guard ContinuousClock.now < deadline else { throw Failure.tooSlow }
                let hasRoom = held.withLock { held in
                    guard held + part.readableBytes <= Limits.bodiesBytesMax else { return false }
                    held += part.readableBytes
                    return true
                }
                guard hasRoom else { throw Failure.noRoom }
                body.append(contentsOf: part.readableBytesView)
            }
        } catch let failure as Failure {
            throw failure
        } catch {
            throw Failure.incomplete
        }
        return try await use(body)
    }
}
