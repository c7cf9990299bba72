import AppStore
import Foundation
import Simulation
import Subscriptions
import Testing

@Suite("Signed notifications that were changed")
struct V2TamperTests {
    private let body = V2Body("TEST", at: "2024-06-01")

    @Test("a signed notification with any byte changed is rejected", arguments: [0, 1, 2])
    func everyByte(round: Int) async {
        let good = body.jws(by: .standard([0, 1]))
        let receiver = V2Receiver()
        var taken: [Int] = []

        #expect(await receiver.refusal(envelope(good)) == nil)
        for position in good.indices {
            var changed = good
            switch round {
            // Most changes stay in the alphabet.
            case 0: changed[position] ^= 1
            case 1: changed[position] ^= 1 << UInt8(position % 7 + 1)
            default: changed[position] = changed[position] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            }
            if changed != good, await receiver.refusal(envelope(changed)) == nil { taken.append(position) }
        }

        #expect(taken.isEmpty, "accepted changes, of \(good.count) bytes")
    }

    @Test("another spelling of the last character of a segment is rejected")
    func lastCharacters() async {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
        let good = body.jws()
        let dots = good.indices.filter { good[$0] == UInt8(ascii: ".") }
        let receiver = V2Receiver()

        for position in dots.map({ $0 - 1 }) + [good.count - 1] {
            for character in alphabet where character != good[position] {
                var changed = good
                changed[position] = character

                #expect(await receiver.refusal(envelope(changed)) != nil, "position \(position), \(character)")
            }
        }
    }

    @Test("a signed notification with a byte removed or doubled is rejected")
    func lengths() async {
        let good = body.jws(by: .standard([0, 1]))
        let receiver = V2Receiver()

        for position in stride(from: 0, to: good.count, by: 13) {
            let shorter = good[..<position] + good[(position + 1)...]
            let longer = good[..<position] + [good[position]] + good[position...]

            #expect(await receiver.refusal(envelope(Array(shorter))) != nil, "without \(position)")
            #expect(await receiver.refusal(envelope(Array(longer))) != nil, "twice \(position)")
        }
    }

    @Test("a payload with the signature of another one is rejected")
    func otherPayload() async {
        let segments = body.jws().split(separator: UInt8(ascii: ".")).map(Array.init)
        let other = V2Body("TEST", at: "2024-06-02").jws().split(separator: UInt8(ascii: ".")).map(Array.init)
        let mixed = [segments[0], other[1], segments[2]]

        #expect(
            await V2Receiver().refusal(envelope(Array(mixed.joined(separator: ".".utf8))))
                == .unverified(.signature, .notification))
    }
}

/// A server caches verified chains. The cache holds chains, not notifications.
@Suite("Cached chains")
struct V2KnownChainTests {
    private let first = V2Body("TEST", at: "2024-06-01")

    @Test("another notification of the same chain is accepted")
    func second() async throws {
        let receiver = V2Receiver()

        let one = try await receiver.take(first.signed())
        let two = try await receiver.take(V2Body("TEST", at: "2024-06-02").signed())

        #expect(one.chain?.id == two.chain?.id)
        #expect(one.event.dedupeKey != two.event.dedupeKey)
    }

    @Test("different certificates have a different chain id")
    func ids() async throws {
        let receiver = V2Receiver()
        let other = JWSSigner(.shaped { $0.leafValidity = .days("2024-01-01", "2024-12-31") })

        let one = try await receiver.take(first.signed())
        let two = try await receiver.take(first.signed(by: other))

        #expect(one.chain?.id != two.chain?.id)
    }

    @Test(
        "a signing time outside the leaf's validity is rejected for a cached chain too",
        arguments: [("2023-12-31T23:59:59Z", VerificationFailure.notYetValid), ("2028-01-01T00:00:00Z", .expired)])
    func outside(signedAt: String, failure: VerificationFailure) async {
        let receiver = V2Receiver()
        let late = V2Body("TEST", at: signedAt).signed()

        #expect(await receiver.refusal(late) == .unverified(failure, .notification))
        #expect(await receiver.refusal(first.signed()) == nil)
        #expect(await receiver.refusal(late) == .unverified(failure, .notification))
        #expect(await receiver.refusal(first.signed()) == nil)
    }

    @Test("a forged signature with a cached chain is rejected and affects no later notification")
    func forged() async throws {
        let receiver = V2Receiver()
        let forged = JWSSigner(key: TestKeys.p256("forger"), x5c: TestCertificates.standard.x5c)

        #expect(await receiver.refusal(first.signed(by: forged)) == .unverified(.signature, .notification))
        #expect(await receiver.refusal(first.signed()) == nil)
        #expect(await receiver.refusal(first.signed(by: forged)) == .unverified(.signature, .notification))
        #expect(await receiver.refusal(first.signed()) == nil)
    }

    @Test("a chain cached by one server is rejected by a server with other roots")
    func otherServer() async {
        let stranger = V2Receiver(roots: V2Receiver.roots(.stranger))

        #expect(await V2Receiver().refusal(first.signed()) == nil)
        #expect(await stranger.refusal(first.signed()) == .unverified(.untrusted, .notification))
    }

    @Test("an untrusted chain is rejected each time it is sent")
    func refusedOften() async {
        let receiver = V2Receiver()
        let body = first.signed(by: JWSSigner(.stranger))

        for _ in 0..<3 { #expect(await receiver.refusal(body) == .unverified(.untrusted, .notification)) }
    }

    @Test("more chains than the cache holds are verified")
    func manyChains() async {
        let receiver = V2Receiver()
        let headers = (0..<80).map { number in
            V2Text(header: V2Text.header(more: ",\"kid\":\"\(number)\""), payload: WrongText.payload).body()
        }

        for body in headers + headers { #expect(await receiver.refusal(body) == nil) }
    }

    @Test("concurrent verifications do not affect each other")
    func concurrently() async {
        let receiver = V2Receiver()
        let good = first.signed()
        let bad = first.signed(by: JWSSigner(.stranger))

        let results = await withTaskGroup(of: (Int, Refusal?).self) { group in
            for number in 0..<40 {
                group.addTask { (number, await receiver.refusal(number % 2 == 0 ? good : bad)) }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }

        #expect(results.allSatisfy { number, refusal in (refusal == nil) == (number % 2 == 0) })
    }
}
