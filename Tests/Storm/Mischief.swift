import Foundation
import Simulation
import Subscriptions
import Synchronization
import TestSupport

/// Adversarial requests during a storm: repeats, one `notificationUUID` with two bodies, forgeries, garbage, and bodies
/// that never end.
struct Mischief: Sendable {
    let sender: Sender
    let report: StormReport
    let seed: UInt64

    private static let pause = Duration.milliseconds(120)
    private static let senders = 4
    /// The number of unfinished bodies per sender, and how long each is held.
    private static let slowBodiesMax = 3
    private static let slowBodyTime = Duration.seconds(18)

    /// Signed under another root, with another secret, and without a secret.
    private let forgeries: [Simulation]

    init(sender: Sender, report: StormReport, seed: UInt64) {
        self.sender = sender
        self.report = report
        self.seed = seed
        var shape = TestCertificates.Shape()
        shape.label = "forger"
        var settings = sender.load.simulations[0].settings
        settings.format = .v2
        let signedByOther = Simulation(settings, certificates: TestCertificates(shape))
        settings.format = .v1
        settings.app.sharedSecret = Canary.mark + "wrong"
        let wrongSecret = Simulation(settings)
        settings.app.sharedSecret = nil
        forgeries = [signedByOther, wrongSecret, Simulation(settings)].compactMap(\.self)
    }

    /// Runs until its task is cancelled.
    func run() async {
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<Self.senders { group.addTask { await run(number) } }
        }
    }

    private func run(_ number: Int) async {
        var random = SplitMix64(seed: seed, 3, UInt64(number))
        var slow: [(connection: RawConnection, since: ContinuousClock.Instant)] = []
        while !Task.isCancelled {
            slow.removeAll { $0.since < .now - Self.slowBodyTime }
            switch Int.random(in: 0..<10, using: &random) {
            case 0...2: await repeatOne(&random)
            case 3: await conflict(&random)
            case 4...6: await forge(&random)
            case 7...8: await garbage(&random)
            default:
                if slow.count < Self.slowBodiesMax, let one = beginSlowBody(&random) { slow.append((one, .now)) }
            }
            // A byte now and then keeps the connection from being idle.
            for one in slow { one.connection.write("x") }
            try? await Task.sleep(for: Self.pause)
        }
    }

    private func port(_ random: inout SplitMix64) -> Int? {
        sender.servers[Int.random(in: sender.servers.indices, using: &random)].ports?.public
    }

    /// Posts an acknowledged notification to all servers at once.
    private func repeatOne(_ random: inout SplitMix64) async {
        guard let parcel = sender.recent(&random) else { return }
        await withTaskGroup(of: Void.self) { group in
            for server in sender.servers { group.addTask { _ = await sender.post(parcel, to: server) } }
        }
    }

    /// Signs a notification of the load again: the same `notificationUUID` with different bytes.
    private func conflict(_ random: inout SplitMix64) async {
        for _ in 0..<10 {
            let place = Int.random(in: 0..<sender.load.count, using: &random)
            let (one, other) = (sender.load[place], sender.load[place])
            guard one.isSigned, one.storedDigest != other.storedDigest else { continue }
            await sender.deliver(other, &random)
            return
        }
    }

    private func forge(_ random: inout SplitMix64) async {
        guard let port = port(&random) else { return }
        let number = Int.random(in: 0...forgeries.count, using: &random)
        let deliveries = number < forgeries.count ? forgeries[number].deliveries : sender.load.simulations[0].deliveries
        let delivery = deliveries[Int.random(in: deliveries.indices, using: &random)]
        var body = delivery.body()
        if number == forgeries.count {
            guard !delivery.isVersion1 else { return }
            // Changes one letter of the header, the payload or the signature.
            let index = Int.random(in: 40..<body.count - 40, using: &random)
            body[index] = body[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
        }
        await expectRefusal("forged", body, port)
    }

    private func garbage(_ random: inout SplitMix64) async {
        guard let port = port(&random) else { return }
        let bodies: [[UInt8]] = [
            [], Array("{\"signedPayload\":\"\(Canary.garbage)\"}".utf8), Array("\(Canary.garbage)".utf8),
            Array("{\"notification_type\":\"\(Canary.garbage)\",\"password\":\"\(Canary.garbage)\"}".utf8),
            Array(repeating: UInt8(ascii: "["), count: 20_000),
            (0..<2000).map { _ in UInt8.random(in: .min ... .max, using: &random) },
        ]
        await expectRefusal("garbage", bodies[Int.random(in: bodies.indices, using: &random)], port)
    }

    private func expectRefusal(_ kind: String, _ body: [UInt8], _ port: Int) async {
        let answer = await sender.client.post(body, to: port)
        sender.ledger.count(kind, answer)
        if answer?.status == 200 { report.problem("a \(kind) body was acknowledged") }
    }

    private func beginSlowBody(_ random: inout SplitMix64) -> RawConnection? {
        guard let port = port(&random), let connection = try? RawConnection(port: port) else { return nil }
        connection.write(
            "POST /apple/notifications HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n"
                + "{\"notification_type\":\"\(Canary.garbage)")
        return connection
    }
}
