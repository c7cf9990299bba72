import AppStore
import ArgumentParser
import Encoding
import StoreClient
import Subscriptions

/// Asks the App Store about the contents of one file for `receipt verify`.
struct ReceiptInspection: Sendable {
    let client: ReceiptClient
    let app: App
    let now: @Sendable () -> Instant

    /// Why there is nothing good to say about a receipt. The order is that of the exit statuses to prefer.
    enum Problem: Error, Comparable {
        case file(String)
        case refused(String)
        case secretRejected
        case unavailable(String)

        private var rank: Int {
            switch self {
            case .file, .refused: 0
            case .secretRejected: 1
            case .unavailable: 2
            }
        }

        static func < (left: Problem, right: Problem) -> Bool { left.rank < right.rank }

        var description: String {
            switch self {
            case .file(let problem), .refused(let problem): problem
            case .secretRejected: "the App Store rejects the shared secret of the app"
            case .unavailable(let label): "the App Store cannot be asked now: \(label)"
            }
        }

        var exitCode: ExitCode {
            switch self {
            case .file, .refused: .dataError
            case .secretRejected: .configurationError
            case .unavailable: .unavailable
            }
        }
    }

    struct Result: Sendable {
        var lines: [String] = []
        var problem: Problem?
    }

    /// - Parameter bytes: Nil if the file could not be read.
    func inspect(_ bytes: [UInt8]?, _ file: String) async -> Result {
        guard let bytes else { return Result(problem: .file(InputFile.unreadable)) }
        let receipt: Receipt
        do throws(ReceiptProblem) {
            receipt = try Self.receipt(bytes)
        } catch {
            return Result(problem: .file(error.description))
        }
        switch await client.ask(receipt, app: app, priority: .handIn) {
        case .answered(let answer): return inspect(answer, file)
        case .refused(let status):
            let refusal = ReceiptRefusal.status(status)
            let checks = ReceiptChecks(
                stored: status, refusal: refusal.label, registration: nil, isInForce: nil)
            return Result(lines: [line(file, checks, environment: nil)], problem: .refused(refusal.description))
        case .rejected: return Result(problem: .secretRejected)
        case .unreadable(let label): return Result(problem: .unavailable(label))
        case .unavailable(let reason, _): return Result(problem: .unavailable(reason.rawValue))
        }
    }

    /// Decodes base64, unless the bytes begin like a raw receipt: a DER sequence or a property list, neither of which is
    /// base64.
    private static func receipt(_ bytes: [UInt8]) throws(ReceiptProblem) -> Receipt {
        let isContainer = bytes.count > 1 && bytes[0] == 0x30 && bytes[1] >= 0x80
        if isContainer || bytes.first == UInt8(ascii: "{") {
            guard bytes.count <= Receipt.bytesMax else { throw .tooLong }
            return Receipt(stored: bytes)
        }
        guard let text = String(validating: bytes, as: UTF8.self) else { throw .notBase64 }
        return try Receipt(base64: text)
    }

    private func inspect(_ answer: AnswerFromApple, _ file: String) -> Result {
        let verified: VerifiedReceipt
        do throws(ReceiptRefusal) {
            verified = try Apps([app]).verify(answer, of: app.bundleId, subscriptions: [])
        } catch {
            let checks = ReceiptChecks(of: answer, refusedBy: error)
            return Result(lines: [line(file, checks, environment: nil)], problem: .refused(error.description))
        }
        let event = verified.event
        var result = Result()
        // Without a database, it is unknown whether the receipt is registered.
        let checks = ReceiptChecks(of: verified, registration: nil, at: now())
        result.lines.append(line(file, checks, environment: verified.stream.environment))
        result.lines += event.transactions.map { row in
            Self.line(file) { writer in
                writer.key("transaction")
                row.write(to: &writer)
            }
        }
        result.lines += event.renewals.map { row in
            Self.line(file) { writer in
                writer.key("renewal")
                row.write(to: &writer)
            }
        }
        return result
    }

    private func line(_ file: String, _ checks: ReceiptChecks, environment: Environment?) -> String {
        Self.line(file) { writer in
            writer.member("app", app.bundleId)
            writer.member("environment", environment?.rawValue)
            writer.key("checks")
            checks.write(to: &writer)
        }
    }

    private static func line(_ file: String, _ content: (inout JSONWriter) -> Void) -> String {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("file", file)
            content(&writer)
        }
        return writer.text
    }
}
