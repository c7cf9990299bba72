import Encoding
import Subscriptions
import Testing

@testable import EventLog

@Suite("The place up to which a log was verified, signed")
struct VerifiedHeadTests {
    private static let key = HeadKey()
    private static let stream = StreamKey(app: "com.example.magazine", environment: .sandbox)
    private static let time = Instant(milliseconds: 1_790_000_000_000) ?? .earliest

    private static func head(_ position: Int64) throws -> VerifiedHead {
        var tree = TreeFrontier()
        for number in 0..<position { tree.append(Array(repeating: UInt8(number), count: 32)) }
        return try VerifiedHead(
            VerifiedPlace(
                head: StreamHead(stream: stream, position: position, chain: Array(repeating: 7, count: 32)), tree: tree),
            roots: Array(repeating: 8, count: 32), release: "0.1.0", at: time, signedBy: key)
    }

    private static func text(_ head: VerifiedHead) -> String {
        var writer = JSONWriter()
        head.write(to: &writer)
        return writer.text
    }

    @Test("what is written is read again, with its signature", arguments: [1, 2, 5, 13, 64])
    func roundTrip(_ position: Int64) throws {
        let head = try Self.head(position)
        let read = try #require(VerifiedHead.heads(inLines: Array("\(Self.text(head))\n\(Self.text(head))\n".utf8)))

        #expect(read == [head, head])
        #expect(read[0].isSigned(by: Self.key.publicKey))
        #expect(!read[0].isSigned(by: HeadKey().publicKey))
        #expect(read[0].place.tree.root == head.place.tree.root)
        #expect(VerifiedHead.heads(inLines: []) == [])
    }

    @Test("no member can be changed without breaking the signature or the form")
    func tampering() throws {
        let text = Self.text(try Self.head(5))
        let changes = [
            ("com.example.magazine", "com.example.other"), ("sandbox", "production"),
            ("\"position\":5", "\"position\":6"), ("07070707", "07070708"), ("08080808", "08080809"),
            ("0.1.0", "0.1.1"), ("2026", "2027"), ("\"tree\":[\"", "\"tree\":[\"00"),
        ]
        for (old, new) in changes {
            let changed = text.replacing(old, with: new, maxReplacements: 1)
            #expect(changed != text, "\(old)")
            let read = VerifiedHead.heads(inLines: Array(changed.utf8))
            #expect(read?.first?.isSigned(by: Self.key.publicKey) ?? false == false, "\(new)")
        }
        #expect(VerifiedHead.heads(inLines: Array("{}".utf8)) == nil)
        #expect(VerifiedHead.heads(inLines: Array("no file of this kind".utf8)) == nil)
    }

    @Test("a signed head does not pass for a verified one: the signed bytes differ")
    func heads() throws {
        let signed = try Self.key.sign(try Self.head(2).place.head, at: Self.time)
        var writer = JSONWriter()
        writer.object { signed.writeMembers(to: &$0) }

        #expect(VerifiedHead.heads(inLines: writer.bytes) == nil)
        let forged = Self.text(try Self.head(2)).replacing(
            /"signature":"[0-9a-f]+"/, with: "\"signature\":\"\(Hex.text(signed.signature))\"")
        #expect(VerifiedHead.heads(inLines: Array(forged.utf8))?[0].isSigned(by: Self.key.publicKey) == false)
    }

    @Test("a tree is taken up again only with as many complete subtrees as its size has")
    func trees() throws {
        var tree = TreeFrontier()
        for number in 0..<11 { tree.append(Array(repeating: UInt8(number), count: 32)) }
        var again = try #require(TreeFrontier(size: 11, roots: tree.roots))
        for number in 11..<40 {
            tree.append(Array(repeating: UInt8(number), count: 32))
            again.append(Array(repeating: UInt8(number), count: 32))
        }

        #expect(again == tree)
        #expect(again.root == tree.root)
        #expect(TreeFrontier(size: 3, roots: [Array(repeating: 1, count: 32)]) == nil)
        #expect(TreeFrontier(size: 1, roots: [[1]]) == nil)
        #expect(TreeFrontier(size: -1, roots: []) == nil)
        #expect(TreeFrontier(size: 0, roots: []) == TreeFrontier())
    }
}
