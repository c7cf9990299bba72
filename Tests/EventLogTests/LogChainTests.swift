import Encoding
import Postgres
import Subscriptions
import Testing

@testable import EventLog

@Suite("Hash chain and signed heads")
struct LogChainTests {
    private static let stream = StreamKey(app: "com.example.magazine", environment: .sandbox)

    private static func time(_ microseconds: Int64) -> Timestamptz {
        Timestamptz(microsecondsSinceUnixEpoch: microseconds)
    }

    private static let unsigned = ChainedEvent(
        receivedAt: time(1_700_000_001_000_000), source: "apple-v1", dedupeKey: Array(repeating: 1, count: 32),
        bodyDigest: Array(repeating: 2, count: 32), chainId: nil, revocation: nil)
    private static let signed = ChainedEvent(
        receivedAt: time(1_700_000_002_000_000), source: "apple-v2", dedupeKey: Array(repeating: 3, count: 16),
        bodyDigest: Array(repeating: 4, count: 32), chainId: Array(repeating: 5, count: 32), revocation: "good")

    /// The expected values were computed with Python's hashlib and struct.
    @Test("digests and chain values are those of an independent program")
    func vectors() {
        var chain = LogChain(startOf: Self.stream, createdAt: Self.time(1_700_000_000_123_456))
        var values = [Hex.text(chain.value)]
        for event in [Self.unsigned, Self.signed] {
            chain.append(event.digest)
            values.append(Hex.text(chain.value))
        }

        #expect(
            Hex.text(Self.unsigned.digest) == "696bd990404b794ded86ffc7df9084a01b51107105a6736510e404de68b9bc60")
        #expect(Hex.text(Self.signed.digest) == "81ad481b5a111369fbb4bd61ecb2c2f51692e6ec8991897b9ead8ce30f78623d")
        #expect(
            values == [
                "3c9bc66c2ff6a43c5b0e1046f87f5264c7101add0a690076ca952e37dde34df0",
                "b99ccbd9cc7baf3e905c1c8141d6d07753c44f1391b91e8b907069bf1ea6934a",
                "2f036e57c2d5deaa3c7526791e56aa86d9bee0a24a28d0e9fc4fcb5a53754301",
            ])
        #expect(chain.position == 2)
    }

    @Test("a digest depends on every column, and on where one column ends and the next begins")
    func columns() {
        let event = Self.signed
        func other(
            receivedAt: Timestamptz? = nil, source: String? = nil, dedupeKey: [UInt8]? = nil,
            bodyDigest: [UInt8]? = nil, chainId: [UInt8]?? = nil, revocation: String?? = nil
        ) -> ChainedEvent {
            ChainedEvent(
                receivedAt: receivedAt ?? event.receivedAt, source: source ?? event.source,
                dedupeKey: dedupeKey ?? event.dedupeKey, bodyDigest: bodyDigest ?? event.bodyDigest,
                chainId: chainId ?? event.chainId, revocation: revocation ?? event.revocation)
        }
        let events = [
            event, other(receivedAt: Self.time(1_700_000_002_000_001)), other(source: "apple-v1"),
            other(dedupeKey: Array(repeating: 3, count: 15)), other(bodyDigest: Array(repeating: 6, count: 32)),
            other(chainId: .some(nil)), other(chainId: .some([])), other(revocation: .some(nil)),
            other(revocation: .some("")),
            other(dedupeKey: event.dedupeKey + [4], bodyDigest: Array(repeating: 4, count: 31)),
        ]

        #expect(Set(events.map(\.digest)).count == events.count)
    }

    @Test("a signed head survives its JSON and is accepted only as it was signed, by its key")
    func heads() throws {
        let key = HeadKey()
        let time = try #require(Instant(milliseconds: 1_700_000_000_000))
        let head = StreamHead(stream: Self.stream, position: 7, chain: Array(repeating: 9, count: 32))
        let signed = try key.sign(head, at: time)
        var writer = JSONWriter()
        writer.object { signed.writeMembers(to: &$0) }

        let read = try #require(SignedHead.heads(inLines: Array("\n\(writer.text)\r\n \n\(writer.text)\n".utf8)))

        #expect(read == [signed, signed])
        #expect(signed.isSigned(byOneOf: [HeadKey().publicKey, key.publicKey]))
        #expect(!signed.isSigned(byOneOf: [HeadKey().publicKey]))
        #expect(!signed.isSigned(byOneOf: []))
        let forgeries = [
            ("\"position\":7", "\"position\":8"), ("sandbox", "production"), ("\"chain\":\"09", "\"chain\":\"08"),
            ("2023-11-14T22:13:20.000Z", "2023-11-14T22:13:20.001Z"), ("com.example.magazine", "com.example.magazines"),
        ]
        for (text, other) in forgeries {
            #expect(writer.text.contains(text), "\(text)")
            let forged = try #require(SignedHead.heads(inLines: Array(writer.text.replacing(text, with: other).utf8)))
            #expect(!forged[0].isSigned(byOneOf: [key.publicKey]), "\(text)")
        }
    }

    @Test(
        "a file without heads, or with a malformed one, is rejected",
        arguments: [
            "", "\n", "{}", "[]", "{\"app\":\"a\",\"environment\":\"sandbox\",\"position\":1,\"chain\":\"00\"}",
        ])
    func malformed(_ text: String) {
        #expect(SignedHead.heads(inLines: Array(text.utf8)) == nil)
    }

    @Test("a head key survives its file, and the key of RFC 8410 has its public key")
    func keys() throws {
        let key = HeadKey()
        let example = """
            -----BEGIN PRIVATE KEY-----
            MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
            -----END PRIVATE KEY-----

            """

        #expect(HeadKey(pem: key.pem)?.publicKey.bytes == key.publicKey.bytes)
        #expect(HeadKey(pem: example)?.pem == example)
        let publicKey = "19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1"
        #expect(HeadKey(pem: example).map { Hex.text($0.publicKey.bytes) } == publicKey)
        #expect(HeadPublicKey(hexadecimal: publicKey.uppercased()).map { Hex.text($0.bytes) } == publicKey)
        #expect(HeadPublicKey(hexadecimal: String(publicKey.dropLast(2))) == nil)
        #expect(HeadKey(pem: "") == nil)
        #expect(HeadKey(pem: example.replacing("PRIVATE", with: "PUBLIC")) == nil)
        #expect(HeadKey(pem: example.replacing("MC4CAQAwBQYDK2Vw", with: "MC4CAQAwBQYDK2Vu")) == nil)
    }
}
