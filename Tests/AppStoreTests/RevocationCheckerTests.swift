import AppStore
import Subscriptions
import TestSupport
import Testing

private let leafResponder = RevocationChain.leafResponder

private func unreachable(_: [UInt8], _: RevocationChain.Issuer) throws -> [UInt8] {
    throw RevocationResponder.Unreachable()
}

@Suite("Cached verdicts are checked again when they age")
struct RevocationCacheTests {
    @Test("a good verdict is valid for an hour and then checked again")
    func good() async throws {
        let bundle = try RevocationBundle()
        #expect(try await bundle.settled() == .good)

        bundle.clock.advance(seconds: 3599)
        #expect(bundle.known() == .good)
        #expect(try await bundle.settled() == .good)
        #expect(bundle.responder.asked.count == 2)

        bundle.clock.advance(seconds: 1)
        #expect(bundle.known() == nil)
        #expect(try await bundle.settled() == .good)
        #expect(bundle.responder.asked.count == 4)
        #expect(bundle.reports.verdicts == [.good])
    }

    @Test("an unknown verdict is retried after 30 s, doubling up to 15 min; any other verdict resets the delay")
    func backOff() async throws {
        let bundle = try RevocationBundle()
        bundle.responder.everywhere(unreachable)
        #expect(try await bundle.settled() == .unknown)

        for wait: Int64 in [30, 60, 120, 240, 480, 900, 900] {
            let asked = bundle.responder.asked.count
            bundle.clock.advance(seconds: wait - 1)
            #expect(try await bundle.settled() == .unknown)
            #expect(bundle.responder.asked.count == asked)
            bundle.clock.advance(seconds: 1)
            #expect(try await bundle.settled() == .unknown)
            #expect(bundle.responder.asked.count > asked)
        }
        bundle.responder.everywhere { try RevocationAnswer().der(to: $0, by: $1) }
        bundle.clock.advance(seconds: 900)
        #expect(try await bundle.settled() == .good)

        bundle.responder.everywhere(unreachable)
        bundle.clock.advance(seconds: 3600)
        #expect(try await bundle.settled() == .unknown)
        let asked = bundle.responder.asked.count
        bundle.clock.advance(seconds: 30)
        #expect(try await bundle.settled() == .unknown)
        #expect(bundle.responder.asked.count > asked)
        #expect(bundle.reports.verdicts == [.unknown, .good, .unknown])
    }

    @Test("a revoked verdict is checked again after an hour; only a good response replaces it")
    func lifted() async throws {
        let bundle = try RevocationBundle()
        bundle.responder.at(leafResponder, RevocationAnswer(status: .revoked))
        #expect(try await bundle.settled() == .revoked)
        let first = bundle.responder.asked.count

        bundle.clock.advance(seconds: 3599)
        #expect(try await bundle.settled() == .revoked)
        #expect(bundle.responder.asked.count == first)

        bundle.responder.everywhere(unreachable)
        bundle.clock.advance(seconds: 1)
        #expect(try await bundle.settled() == .revoked)
        #expect(bundle.known() == .revoked)
        let second = bundle.responder.asked.count
        #expect(second > first)

        bundle.responder.everywhere { try RevocationAnswer().der(to: $0, by: $1) }
        bundle.clock.advance(seconds: 3599)
        #expect(try await bundle.settled() == .revoked)
        #expect(bundle.responder.asked.count == second)
        bundle.clock.advance(seconds: 1)
        #expect(try await bundle.settled() == .revoked)
        #expect(try await bundle.reported(2) == [.revoked, .good])
        #expect(try await bundle.settled() == .good)
        #expect(bundle.reports.instants == [day("2026-01-01"), day("2026-01-01T02:00:00Z")])
    }

    @Test("setting the clock back does not extend a verdict")
    func clockSetBack() async throws {
        let bundle = try RevocationBundle()
        #expect(try await bundle.settled() == .good)

        bundle.clock.advance(seconds: -86_400)

        #expect(bundle.known() == nil)
        #expect(try await bundle.settled() == .good)
        #expect(bundle.responder.asked.count == 4)
    }

    @Test("revocations restored after a restart apply at once and are checked again when they are an hour old")
    func restored() async throws {
        let bundle = try RevocationBundle(mode: .background)
        bundle.checker.restore(revoked: [bundle.certificates.chain().id: day("2025-12-31T23:30:00Z")])

        #expect(bundle.known() == .revoked)
        #expect(bundle.responder.asked.isEmpty)
        bundle.clock.advance(seconds: 1800)
        #expect(bundle.known() == .revoked)
        #expect(try await bundle.reported(1) == [.good])
        #expect(bundle.known() == .good)
    }
}

@Suite("One check for concurrent requests")
struct RevocationJoinTests {
    @Test("a thousand lookups in background mode start one check, and none of them waits")
    func background() async throws {
        let gate = Gate()
        let bundle = try RevocationBundle(mode: .background)
        bundle.responder.at(leafResponder) { request, issuer in
            await gate.pass()
            return try RevocationAnswer().der(to: request, by: issuer)
        }

        for _ in 0..<1000 { #expect(bundle.known() == nil) }
        try await bundle.waiting(1)
        for _ in 0..<1000 { #expect(bundle.known() == nil) }
        gate.open()

        #expect(try await bundle.reported(1) == [.good])
        #expect(bundle.known() == .good)
        #expect(bundle.responder.asked.count == 2)
    }

    @Test("a lookup starts no check in required mode, and mode off starts none at all")
    func quiet() async throws {
        let required = try RevocationBundle(mode: .required)
        let off = try RevocationBundle(mode: .off)

        #expect(required.known() == nil)
        #expect(off.known() == nil)
        #expect(await off.verdict() == .unknown)
        #expect(await required.verdict() == .good)
        #expect(required.responder.asked.count == 2)
        #expect(off.responder.asked.isEmpty)
    }

    @Test("a hundred requests for one chain share the verdict of one check")
    func joined() async throws {
        let gate = Gate()
        let bundle = try RevocationBundle()
        bundle.responder.at(leafResponder) { request, issuer in
            await gate.pass()
            return try RevocationAnswer(status: .revoked).der(to: request, by: issuer)
        }

        let verdicts = await withTaskGroup(of: RevocationVerdict.self) { group in
            for _ in 0..<100 { group.addTask { await bundle.verdict() } }
            group.addTask {
                try? await bundle.waiting(1)
                gate.open()
                return .revoked
            }
            return await group.reduce(into: []) { $0.append($1) }
        }

        #expect(verdicts == Array(repeating: .revoked, count: 101))
        // The leaf, and once more in the run that distinguishes "revoked" from no response.
        #expect(bundle.responder.asked == [leafResponder, leafResponder])
        #expect(try await bundle.reported(1) == [.revoked])
    }

    @Test("a cancelled request returns unknown at once, and the check continues for the others")
    func cancelled() async throws {
        let gate = Gate()
        let bundle = try RevocationBundle()
        bundle.responder.at(leafResponder) { request, issuer in
            await gate.pass()
            return try RevocationAnswer().der(to: request, by: issuer)
        }
        let impatient = Task { await bundle.verdict() }
        let patient = Task { await bundle.verdict() }
        try await bundle.waiting(1)

        impatient.cancel()
        #expect(await impatient.value == .unknown)
        gate.open()

        #expect(await patient.value == .good)
    }

    @Test("at most two checks run at the same time, and all requests get a verdict")
    func checksMax() async throws {
        let gate = Gate()
        let bundle = try RevocationBundle()
        bundle.responder.at(leafResponder) { request, issuer in
            await gate.pass()
            return try RevocationAnswer().der(to: request, by: issuer)
        }

        let verdicts = await withTaskGroup(of: RevocationVerdict.self) { group in
            for number: UInt8 in 1...8 { group.addTask { await bundle.verdict(number) } }
            group.addTask {
                try? await bundle.waiting(2)
                gate.open()
                return .good
            }
            return await group.reduce(into: []) { $0.append($1) }
        }

        #expect(verdicts == Array(repeating: .good, count: 9))
        #expect(bundle.responder.waitingMost == 2)
    }

    @Test("storing a verdict does not delay requests")
    func slowReport() async throws {
        let gate = Gate()
        let certificates = try RevocationChain()
        let checker = RevocationChecker(
            mode: .required, transport: RevocationResponder(certificates), limits: .patient,
            now: { day("2026-01-01") }, onVerdict: { _, _, _ in await gate.pass() })

        #expect(await checker.verdict(of: certificates.chain()) == .good)
        #expect(await checker.verdict(of: certificates.chain()) == .good)
        gate.open()
    }
}

@Suite("Limits of the verdict cache")
struct RevocationRoomTests {
    @Test("the least recently used chain is evicted first")
    func forgets() async throws {
        let bundle = try RevocationBundle { $0.chainsMax = 2 }
        for number: UInt8 in [1, 2] { #expect(try await bundle.settled(number) == .good) }
        #expect(bundle.known(1) == .good)

        #expect(try await bundle.settled(3) == .good)

        #expect(bundle.known(1) == .good)
        #expect(bundle.known(2) == nil)
        #expect(bundle.known(3) == .good)
    }

    @Test("a revoked chain is evicted last, and only the latest revocations are restored")
    func revoked() async throws {
        let bundle = try RevocationBundle { $0.chainsMax = 2 }
        let now = bundle.clock.now
        bundle.checker.restore(revoked: [
            bundle.certificates.chain(1).id: now, bundle.certificates.chain(2).id: now.advanced(byMilliseconds: -2),
            bundle.certificates.chain(3).id: now.advanced(byMilliseconds: -1),
        ])
        #expect([1, 2, 3].map { bundle.known($0) } == [.revoked, nil, .revoked])

        #expect(try await bundle.settled(4) == .good)
        #expect(try await bundle.settled(5) == .good)

        #expect([1, 3, 4, 5].map { bundle.known($0) } == [nil, .revoked, nil, .good])
    }

    @Test("a chain beyond the limit is unknown at once")
    func full() async throws {
        let gate = Gate()
        let bundle = try RevocationBundle { $0.chainsMax = 1 }
        bundle.responder.at(leafResponder) { request, issuer in
            await gate.pass()
            return try RevocationAnswer().der(to: request, by: issuer)
        }
        let first = Task { await bundle.verdict(1) }
        try await bundle.waiting(1)

        #expect(await bundle.verdict(2) == .unknown)
        gate.open()

        #expect(await first.value == .good)
    }

    @Test("stopping returns unknown to all requests, reports no verdict and starts no new check")
    func stopped() async throws {
        let gate = Gate()
        let bundle = try RevocationBundle { $0.checksMax = 1 }
        bundle.responder.everywhere { _, _ in
            await gate.pass()
            return []
        }
        let underWay = Task { await bundle.verdict(1) }
        try await bundle.waiting(1)
        let queued = Task { await bundle.verdict(2) }

        await bundle.checker.stop()
        await bundle.checker.stop()

        #expect(await underWay.value == .unknown)
        #expect(await queued.value == .unknown)
        #expect(await bundle.verdict(3) == .unknown)
        #expect(bundle.reports.verdicts.isEmpty)
        #expect(bundle.responder.asked.count == 1)
        gate.open()
    }
}
