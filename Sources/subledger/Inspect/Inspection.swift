import AppStore
import Encoding
import Server
import Subscriptions

/// Why a body fails verification.
protocol Rejection: Error, CustomStringConvertible {
    /// A word from a closed list.
    var label: String { get }
}

extension Refusal: Rejection {}

extension StatementRefusal: Rejection {}

/// Decodes and verifies the contents of one file for `inspect`.
struct Inspection {
    /// Nil to decode without verifying.
    let signatures: SignatureVerifier?
    let expectation: AppExpectation

    private enum Verdict {
        case verified(VerifiedChain)
        case failed(any Rejection)
        case notChecked(String)
    }

    /// - Returns: The line to print, and the reason why verification failed, if it did.
    func inspect(_ bytes: [UInt8], _ file: String) async throws -> (line: String, problem: (any Rejection)?) {
        let text = Self.trimmed(bytes)
        if text.first == UInt8(ascii: "e"), let object = try? SignedObject(text) {
            if object.jws.payload.root["notificationType"] == nil { return await inspect(object, file) }
            return await inspect(.v2(try V2Notification(decoding: text)), file)
        }
        switch try StoreBody(decoding: bytes) {
        case .notification(let notification): return await inspect(notification, file)
        case .answer(let answer): return inspect(answer, file)
        case .device(let statement): return await inspect(statement, file)
        case .write(let write): return inspect(write, file)
        }
    }

    private func inspect(_ write: StoreWrite, _ file: String) -> (String, (any Rejection)?) {
        self.write(.notChecked("requests of operators are not signed"), file) { writer in
            writer.member("source", EventSource.operator.rawValue)
            writer.member("kind", write.kind.rawValue)
            writer.key("write")
            write.write(to: &writer)
        }
    }

    private func inspect(_ answer: StoredAnswer, _ file: String) -> (String, (any Rejection)?) {
        write(.notChecked("answers of verifyReceipt are not signed"), file) { writer in
            writer.key("answer")
            writer.object { writer in
                writer.member("status", answer.answer.status.number)
                writer.member("meaning", answer.answer.status.meaning)
            }
            answer.event(app: nil, environment: nil, receivedAt: SystemClock.now()).writeMembers(to: &writer)
        }
    }

    private func inspect(_ notification: AppleNotification, _ file: String) async -> (String, (any Rejection)?) {
        let verdict =
            switch notification {
            case .v1: Verdict.notChecked("version 1 is not signed")
            case .v2(let signed):
                await verdict(of: signed.environment) { (signatures) throws(Refusal) in
                    try await signatures.verify(signed, fallback: SystemClock.now())[0]
                } expectation: { (expectation) throws(Refusal) in
                    try expectation.check(signed)
                }
            }
        return write(verdict, file) { writer in
            notification.event(receivedAt: SystemClock.now()).writeMembers(to: &writer)
        }
    }

    private func inspect(_ object: SignedObject, _ file: String) async -> (String, (any Rejection)?) {
        let verdict = await verdict(of: object.environment) { (signatures) throws(Refusal) in
            try await signatures.verify(object, fallback: SystemClock.now())
        } expectation: { (expectation) throws(Refusal) in
            try expectation.check(object)
        }
        return write(verdict, file) { writer in
            writer.member("signed", object.part.rawValue)
            writer.member("payload", CanonicalJSON(object.jws.payload.root))
        }
    }

    private func inspect(_ statement: SignedStatement, _ file: String) async -> (String, (any Rejection)?) {
        let verdict = await verdict(of: statement.environment) { (signatures) throws(StatementRefusal) in
            try await signatures.verify(statement, fallback: SystemClock.now())[0]
        } expectation: { (expectation) throws(StatementRefusal) in
            try expectation.check(statement)
        }
        return write(verdict, file) { statement.event().writeMembers(to: &$0) }
    }

    private func verdict<Problem: Rejection>(
        of environment: Environment?, signature: (SignatureVerifier) async throws(Problem) -> VerifiedChain,
        expectation check: (AppExpectation) throws(Problem) -> Void
    ) async -> Verdict {
        do throws(Problem) {
            // Only the operator's option selects a local environment; the sender's claim must not.
            if let environment, environment.isLocal, expectation.environments?.contains(environment) == true {
                try check(expectation)
                return .notChecked("data of this environment is not signed by Apple")
            }
            guard let signatures else {
                try check(expectation)
                return .notChecked("--no-verify")
            }
            let chain = try await signature(signatures)
            try check(expectation)
            return .verified(chain)
        } catch {
            return .failed(error)
        }
    }

    private func write(
        _ verdict: Verdict, _ file: String, _ content: (inout JSONWriter) -> Void
    ) -> (String, (any Rejection)?) {
        var problem: (any Rejection)?
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("file", file)
            writer.key("verification")
            writer.object { writer in
                switch verdict {
                case .verified(let chain):
                    writer.member("verdict", "verified")
                    writer.member("chain", Hex.text(chain.certificates.id.sha256))
                    writer.member("certificates", chain.isShort ? 2 : 3)
                case .failed(let refusal):
                    problem = refusal
                    writer.member("verdict", "failed")
                    writer.member("step", refusal.label)
                    writer.member("problem", refusal.description)
                case .notChecked(let why):
                    writer.member("verdict", "not checked")
                    writer.member("why", why)
                }
            }
            content(&writer)
        }
        return (writer.text, problem)
    }

    private static func trimmed(_ bytes: [UInt8]) -> ArraySlice<UInt8> {
        guard let first = bytes.firstIndex(where: { $0 > 0x20 }), let last = bytes.lastIndex(where: { $0 > 0x20 })
        else { return [] }
        return bytes[first...last]
    }
}
