import AppStore
import Encoding

/// A body from a file, with its time of receipt if the file has one.
struct Delivery {
    let receivedAt: Instant?
    let body: [UInt8]
    /// The line number, from 1; nil if the file is a single body.
    let line: Int?

    struct Malformed: Error, CustomStringConvertible {
        let line: Int?
        let description: String
    }

    /// Reads a file that is a single body, or has one body or `{"receivedAt": …, "body": …}` per line.
    ///
    /// - Returns: The body or the error of each line.
    static func read(_ bytes: [UInt8]) -> [Result<Delivery, Malformed>] {
        do throws(JSONError) {
            return [unwrap(try JSONDocument(bytes), line: nil)]
        } catch {
            let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
            // A single line, or a first line that is not JSON, means a single malformed body.
            guard error.problem == .trailingBytes, lines.count > 1 else {
                return [.failure(Malformed(line: nil, description: "\(UndecodableBody.notJSON(error))"))]
            }
            return lines.enumerated().filter { !$0.element.allSatisfy { $0 <= 0x20 } }
                .map { read(line: Array($0.element), number: $0.offset + 1) }
        }
    }

    private static func read(line: [UInt8], number: Int) -> Result<Delivery, Malformed> {
        do throws(JSONError) {
            return unwrap(try JSONDocument(line), line: number)
        } catch {
            return .failure(Malformed(line: number, description: "\(UndecodableBody.notJSON(error))"))
        }
    }

    private static func unwrap(_ document: JSONDocument, line: Int?) -> Result<Delivery, Malformed> {
        let root = document.root
        guard let body = root["body"], root["notification_type"] == nil, root["signedPayload"] == nil else {
            return .success(Delivery(receivedAt: nil, body: document.bytes, line: line))
        }
        var receivedAt: Instant?
        if let value = root["receivedAt"], !value.isNull {
            receivedAt =
                value.string.flatMap { Instant(iso8601: $0) } ?? value.int64.flatMap { Instant(milliseconds: $0) }
            guard receivedAt != nil else {
                return .failure(Malformed(line: line, description: "receivedAt is not an ISO 8601 instant"))
            }
        }
        let bytes = body.string.map { Array($0.utf8) } ?? Array(document.bytes[body.contentRange])
        return .success(Delivery(receivedAt: receivedAt, body: bytes, line: line))
    }
}
