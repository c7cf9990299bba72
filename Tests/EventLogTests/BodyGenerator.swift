import Foundation
import TestSupport

/// Makes bodies like signed ones, most of them broken somewhere.
struct BodyGenerator {
    private var random: SeededGenerator

    init(_ random: SeededGenerator) {
        self.random = random
    }

    mutating func body() -> [UInt8] {
        var body = Array("{\"signedPayload\":\"\(jws(depth: 0))\"}".utf8)
        if random.chance(10) { body = Array(object(depth: 0).utf8) }
        if random.chance(20), !body.isEmpty {
            body[Int.random(in: body.indices, using: &random)] = UInt8.random(in: 2...255, using: &random)
        }
        if random.chance(5) { body.removeLast(Int.random(in: 0...body.count, using: &random)) }
        return body
    }

    private mutating func jws(depth: Int) -> String {
        let header = base64URL(bytes(Int.random(in: 150...400, using: &random)))
        let payload = base64URL(Array(object(depth: depth + 1).utf8))
        let signature = base64URL(bytes(random.chance(90) ? 64 : Int.random(in: 0...70, using: &random)))
        let separator = random.chance(95) ? "." : ["..", "", "=.", " ."].randomElement(using: &random) ?? ""
        return header + separator + payload + "." + signature
    }

    private mutating func object(depth: Int) -> String {
        var members: [String] = []
        for _ in 0..<Int.random(in: 0...4, using: &random) {
            members.append("\"\(text(depth: depth))\":\"\(text(depth: depth))\"")
        }
        return "{\(members.joined(separator: ","))}"
    }

    private mutating func text(depth: Int) -> String {
        switch Int.random(in: 0..<9, using: &random) {
        case 0 where depth < 6: jws(depth: depth)
        case 1 where depth < 6: base64(Array(object(depth: depth + 1).utf8))
        case 2: base64(bytes(Int.random(in: 0...200, using: &random)))
        case 3: base64(bytes(100)) + (["=", "==", "\\/", "\\u003d", "\n"].randomElement(using: &random) ?? "")
        case 4: base64URL(bytes(100)).replacingOccurrences(of: "A", with: "\\u0041")
        case 5: "\\\"" + String(repeating: "\\\\", count: Int.random(in: 0...3, using: &random))
        case 6: "signedPayload\\\":\\\"" + base64URL(bytes(80))
        case 7: String(decoding: bytes(70), as: UTF8.self)
        default: String(repeating: "Ä", count: Int.random(in: 0...60, using: &random))
        }
    }

    private mutating func bytes(_ count: Int) -> [UInt8] {
        (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
    }

    private func base64(_ bytes: [UInt8]) -> String { Data(bytes).base64EncodedString() }

    private func base64URL(_ bytes: [UInt8]) -> String {
        base64(bytes).replacingOccurrences(of: "+", with: "-").replacingOccurrences(of: "/", with: "_")
            .replacingOccurrences(of: "=", with: "")
    }
}
