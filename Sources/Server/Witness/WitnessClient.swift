import ArgumentParser
import AsyncHTTPClient
import EventLog
import NIOCore

/// Asks a witness to cosign checkpoints.
///
/// - Source: C2SP, tlog-witness v1.0.0.
package struct WitnessClient: Sendable {
    package enum Answer: Sendable {
        case cosigned([SignedNote.Signature])
        /// The last checkpoint that the witness cosigned has this size.
        case knows(size: Int64)
    }

    private let http: HTTPClient
    private let address: String

    /// - Parameter url: The witness's prefix for submissions, an HTTP or HTTPS URL.
    package init(url: String) throws(SettingError) {
        let scheme = url.prefix { $0 != ":" }.lowercased()
        guard scheme == "http" || scheme == "https", url.dropFirst(scheme.count).hasPrefix("://") else {
            throw SettingError(description: "witness \"\(url)\": expected an http or https URL")
        }
        address = (url.hasSuffix("/") ? String(url.dropLast()) : url) + "/add-checkpoint"
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow, decompression: .disabled)
        configuration.connectionPool.retryConnectionEstablishment = false
        http = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }

    /// Closes all connections. Call it once, when no request is in flight.
    package func shutDown() async {
        try? await http.shutdown()
    }

    /// Posts a checkpoint. The signatures in the answer are not verified yet.
    ///
    /// - Throws: ``WitnessProblem``.
    package func post(_ request: WitnessRequest) async throws(WitnessProblem) -> Answer {
        var post = HTTPClientRequest(url: address)
        post.method = .POST
        post.headers.add(name: "content-type", value: "text/plain; charset=utf-8")
        post.body = .bytes(Array(request.encoded.utf8))
        let status: UInt
        let text: String
        do {
            let response = try await http.execute(post, timeout: .seconds(30))
            status = response.status.code
            text = String(buffer: try await response.body.collect(upTo: Self.answerBytesMax))
        } catch {
            throw .unreachable
        }
        switch status {
        case 200:
            guard let signatures = SignedNote.signatures(inLines: text) else { throw .unreadable }
            return .cosigned(signatures)
        case 403: throw .unknownKey
        case 404: throw .unknownOrigin
        case 409:
            guard let size = Int64(text.dropLast(text.hasSuffix("\n") ? 1 : 0)), size >= 0 else { throw .unreadable }
            return .knows(size: size)
        case 422: throw .inconsistent(size: request.oldSize)
        default: throw .status(status)
        }
    }

    /// Of an answer: a few signatures.
    private static let answerBytesMax = 64 << 10
}

/// Why a witness cosigned nothing.
package enum WitnessProblem: CommandError, Hashable, CustomStringConvertible {
    case unreachable
    case status(UInt)
    case unreadable
    case unknownKey
    case unknownOrigin
    /// The answer has no valid cosignature of the expected key.
    case notCosigned(by: String)
    /// The log does not extend what the witness cosigned.
    case inconsistent(size: Int64)
    /// The witness knows a larger checkpoint than the log has events.
    case larger(size: Int64, log: Int64)

    package var description: String {
        switch self {
        case .unreachable: "the witness does not answer"
        case .status(let status): "the witness answered with status \(status)"
        case .unreadable: "the witness answered with something that is no cosignature"
        case .unknownKey:
            "the witness does not know the key of the checkpoint: add the line of `subledger head --verifier-key`"
        case .unknownOrigin:
            "the witness does not know the origin of the checkpoint: add the line of `subledger head --verifier-key`"
        case .notCosigned(let name): "the answer has no valid cosignature of \(name)"
        case .inconsistent(let size):
            "the log does not extend the checkpoint of \(size) events that the witness cosigned"
        case .larger(let size, let log):
            "the witness cosigned a checkpoint of \(size) events, and the log has \(log): was a backup restored?"
        }
    }

    package var exitCode: ExitCode {
        switch self {
        case .unreachable, .status: .unavailable
        case .unreadable, .notCosigned, .inconsistent, .larger: .failure
        case .unknownKey, .unknownOrigin: .configurationError
        }
    }
}
