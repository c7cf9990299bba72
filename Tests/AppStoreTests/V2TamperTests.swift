import AppStore
import Foundation
import StoreSimulator
import Subscriptions
import Testing

@Suite("Signed notifications that were tampered with")
struct V2TamperTests {
    private let body = V2Body("TEST", at: "2024-06-01")

    @Test("no byte of a signed notification can be changed unnoticed", arguments: [0, 1, 2])
    func everyByte(round: Int) async {
        let good = body.jws(by: .standard([0, 1]))
        let receiver = V2Receiver()
        var taken: [Int] = []

        #expect(await receiver.refusal(envelope(good)) == nil)
        for position in good.indices {
            var changed = good
            switch round {
            // Mostly stays in the alphabet.
            case 0: changed[position] ^= 1
            case 1: changed[position] ^= 1 << UInt8(position % 7 + 1)
            default: changed[position] = changed[position] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            }
            if changed != good, await receiver.refusal(envelope(changed)) == nil { taken.append(position) }
        }

        #expect(taken.isEmpty, "of \(good.count) bytes")
    }

    @Test("no other spelling of the last character of a segment is taken")
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

    @Test("no byte can be left out or doubled")
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

    @Test("a payload under the signature of another one is refused")
    func otherPayload() async {
        let segments = body.jws().split(separator: UInt8(ascii: ".")).map(Array.init)
        let other = V2Body("TEST", at: "2024-06-02").jws().split(separator: UInt8(ascii: ".")).map(Array.init)
        let mixed = [segments[0], other[1], segments[2]]

        #expect(
            await V2Receiver().refusal(envelope(Array(mixed.joined(separator: ".".utf8))))
                == .unverified(.signature, .notification))
    }
}

/// A server remembers chains that it has checked. What it remembers is a chain, not a notification.
@Suite("Chains seen before")
struct V2KnownChainTests {
    private let first = V2Body("TEST", at: "2024-06-01")

    @Test("another notification of the same chain is taken")
    func second() async throws {
        let receiver = V2Receiver()

        let one = try await receiver.take(first.signed())
        let two = try await receiver.take(V2Body("TEST", at: "2024-06-02").signed())

        #expect(one.chain?.id == two.chain?.id)
        #expect(one.event.dedupeKey != two.event.dedupeKey)
    }

    @Test("other certificates are another chain")
    func ids() async throws {
        let receiver = V2Receiver()
        let other = JWSSigner(.shaped { $0.leafValidity = .days("2024-01-01", "2024-12-31") })

        let one = try await receiver.take(first.signed())
        let two = try await receiver.take(first.signed(by: other))

        #expect(one.chain?.id != two.chain?.id)
    }

    @Test(
        "a time of signing outside of the leaf's days is refused also under a known header",
        arguments: [("2023-12-31T23:59:59Z", VerificationFailure.notYetValid), ("2028-01-01T00:00:00Z", .expired)])
    func outside(signedAt: String, failure: VerificationFailure) async {
        let receiver = V2Receiver()
        let late = V2Body("TEST", at: signedAt).signed()

        #expect(await receiver.refusal(late) == .unverified(failure, .notification))
        #expect(await receiver.refusal(first.signed()) == nil)
        #expect(await receiver.refusal(late) == .unverified(failure, .notification))
        #expect(await receiver.refusal(first.signed()) == nil)
    }

    @Test("a forged signature under a known header is refused, and harms no later notification")
    func forged() async throws {
        let receiver = V2Receiver()
        let forged = JWSSigner(key: TestKeys.p256("forger"), x5c: TestCertificates.standard.x5c)

        #expect(await receiver.refusal(first.signed(by: forged)) == .unverified(.signature, .notification))
        #expect(await receiver.refusal(first.signed()) == nil)
        #expect(await receiver.refusal(first.signed(by: forged)) == .unverified(.signature, .notification))
        #expect(await receiver.refusal(first.signed()) == nil)
    }

    @Test("a chain known to one server is nothing to another that trusts other roots")
    func otherServer() async {
        let stranger = V2Receiver(roots: V2Receiver.roots(.stranger))

        #expect(await V2Receiver().refusal(first.signed()) == nil)
        #expect(await stranger.refusal(first.signed()) == .unverified(.untrusted, .notification))
    }

    @Test("a refused chain stays refused, and does not become known by being sent often")
    func refusedOften() async {
        let receiver = V2Receiver()
        let body = first.signed(by: JWSSigner(.stranger))

        for _ in 0..<3 { #expect(await receiver.refusal(body) == .unverified(.untrusted, .notification)) }
    }

    @Test("more chains than are remembered verify all the same")
    func manyChains() async {
        let receiver = V2Receiver()
        let headers = (0..<80).map { number in
            V2Text(header: V2Text.header(more: ",\"kid\":\"\(number)\""), payload: WrongText.payload).body()
        }

        for body in headers + headers { #expect(await receiver.refusal(body) == nil) }
    }

    @Test("notifications verified at the same time do not disturb each other")
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
