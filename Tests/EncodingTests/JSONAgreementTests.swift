import Encoding
import Foundation
import TestSupport
import Testing

/// Random small texts, most of them damaged in one place, read by this parser and by Foundation's.
///
/// Not compared, because RFC 8259 leaves them to the parser: lone surrogates, numbers beyond the range of a double,
/// byte order marks and other encodings (no NUL byte is generated), invalid UTF-8 (all is ASCII), and deep nesting.
/// Nor a comma before a closing bracket: Foundation accepts it, RFC 8259 does not.
@Suite("Agreement with Foundation on JSON syntax")
struct JSONAgreementTests {
    @Test("this parser and Foundation accept the same generated and mutated texts")
    func agree() {
        var generator = TestSeed.generator(1)
        var disagreements: [String] = []
        var accepted = 0
        var compared = 0

        for _ in 0..<10_000 {
            var text = Self.text(depth: 3, &generator)
            for _ in 0..<Int.random(in: 0...2, using: &generator) {
                Self.mutate(&text, &generator)
            }
            guard !Self.isLeftToTheReader(text) else { continue }
            compared += 1
            let here = (try? JSONDocument(text)) != nil
            let there = (try? JSONSerialization.jsonObject(with: Data(text), options: .fragmentsAllowed)) != nil
            accepted += here ? 1 : 0
            if here != there {
                disagreements.append("\(String(decoding: text, as: UTF8.self)) here \(here), Foundation \(there)")
            }
        }

        #expect(disagreements == [])
        #expect(accepted > 1000 && compared - accepted > 1000, "expected over 1000 accepted and 1000 rejected texts")
    }

    private static let strings = [
        "", "a", "key", "\\n", "\\u0041", "\\\\", "\\\"", "/", "\\/", "1000000588791509", " ", "{", "]",
        "\\ud834\\udd1e",
    ]
    private static let numbers = ["0", "-0", "1", "-12", "1.5", "0.25", "1e3", "2E-2", "-1.5e+10", "9007199254740993"]

    private static func text(depth: Int, _ generator: inout SeededGenerator) -> [UInt8] {
        func pick(_ list: [String]) -> String { list[Int.random(in: 0..<list.count, using: &generator)] }
        func blank() -> String { generator.chance(20) ? pick([" ", "\n", "\t", "\r"]) : "" }
        func value(_ depth: Int) -> String {
            switch Int.random(in: 0..<(depth > 0 ? 8 : 4), using: &generator) {
            case 0: "\"" + pick(strings) + pick(strings) + "\""
            case 1: pick(numbers)
            case 2, 3: pick(["true", "false", "null", "\"\""])
            case 4, 5:
                blank() + "["
                    + (0..<Int.random(in: 0...3, using: &generator)).map { _ in value(depth - 1) + blank() }
                    .joined(separator: ",") + "]"
            default:
                "{" + blank()
                    + (0..<Int.random(in: 0...3, using: &generator)).map { _ in
                        "\"" + pick(strings) + "\"" + blank() + ":" + blank() + value(depth - 1)
                    }.joined(separator: ",") + "}" + blank()
            }
        }
        return Array(value(depth).utf8)
    }

    private static let bytes = Array("{}[]:,\"\\0123456789+-.eEabcdefnrtu/ \n\t'#x\u{1}\u{1F}\u{7F}".utf8)

    private static func mutate(_ text: inout [UInt8], _ generator: inout SeededGenerator) {
        let byte = bytes[Int.random(in: 0..<bytes.count, using: &generator)]
        guard !text.isEmpty else { return text.append(byte) }
        let index = Int.random(in: 0..<text.count, using: &generator)
        switch Int.random(in: 0..<5, using: &generator) {
        case 0: text[index] = byte
        case 1: text.insert(byte, at: index)
        case 2: text.remove(at: index)
        case 3: text.swapAt(index, Int.random(in: 0..<text.count, using: &generator))
        default: text.removeSubrange(index...)
        }
    }

    private static func isLeftToTheReader(_ text: [UInt8]) -> Bool {
        let string = String(decoding: text, as: UTF8.self).lowercased().replacingOccurrences(of: "\\\\", with: "")
        let surrogates = string.components(separatedBy: "\\ud").count - 1
        let pairs = string.components(separatedBy: "\\ud834\\udd1e").count - 1
        let exponentIsLong = string.range(of: "e[+-]?[0-9]{3}", options: .regularExpression) != nil
        let hasTrailingComma = string.range(of: ",[ \n\t\r]*[\\]}]", options: .regularExpression) != nil
        return surrogates != pairs * 2 || exponentIsLong || hasTrailingComma
    }
}
