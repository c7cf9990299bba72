import Simulation
import TestSupport

/// A fault to inject.
enum Fault: Sendable {
    case killServer
    case terminateServer
    case pauseServer(milliseconds: Int, server: Int)
    /// Kills one PostgreSQL backend; PostgreSQL then restarts all of them.
    case killBackend(number: Int)
    case killPostmaster
    case lockHead(milliseconds: Int)
    /// A transaction that stays idle after a write.
    case idleTransaction(milliseconds: Int)
    case fillDisk(milliseconds: Int)
    /// - Parameter breaks: Resets the connections at the end of the fault and drops the delayed bytes.
    case proxy(FaultyProxy.Fault, milliseconds: Int, server: Int, breaks: Bool = false)

    enum Kind: CaseIterable {
        case killServer, terminateServer, pauseServer, killBackend, killPostmaster, lockHead, idleTransaction, fillDisk
        case refuse, reset, delay, blackHole, trickle, cutAfter
    }

    /// The server that is killed and terminated. The other one runs through the whole storm, so that leaks show.
    static let mortal = 0
    static let immortal = 1
}

/// The faults of a storm, determined by its seed.
///
/// Each kind occurs once, in random order, before any repeats.
struct FaultPlan: Sequence, IteratorProtocol {
    private var random: SplitMix64
    private let servers: Int
    private let canFillDisk: Bool
    private var bag: [Fault] = []

    init(seed: UInt64, servers: Int, canFillDisk: Bool) {
        random = SplitMix64(seed: seed, 4)
        self.servers = servers
        self.canFillDisk = canFillDisk
    }

    mutating func next() -> Fault? {
        if bag.isEmpty {
            bag = Fault.Kind.allCases.filter { canFillDisk || $0 != .fillDisk }.map { make($0) }
            bag += FaultyProxy.Moment.allCases.map { proxy(.cut($0), 300...700) }
            // Commits that acknowledgements and projections depend on.
            for moment in [FaultyProxy.Moment.beforeCommitSent, .afterCommitSent, .beforeCommitAnswer] {
                bag += ["receiver", "projector"].map { role in
                    // The other server may be down.
                    .proxy(
                        .cut(moment, application: "subledger \(role)"), milliseconds: number(700...1500),
                        server: Fault.immortal)
                }
            }
            bag.shuffle(using: &random)
        }
        return bag.popLast()
    }

    private mutating func make(_ kind: Fault.Kind) -> Fault {
        switch kind {
        case .killServer: .killServer
        case .terminateServer: .terminateServer
        case .pauseServer: .pauseServer(milliseconds: number(1000...5000), server: number(0...servers - 1))
        case .killBackend: .killBackend(number: number(0...1000))
        case .killPostmaster: .killPostmaster
        // Some exceed the commit timeout of five seconds.
        case .lockHead: .lockHead(milliseconds: number(1000...7000))
        case .idleTransaction: .idleTransaction(milliseconds: number(1000...4000))
        case .fillDisk: .fillDisk(milliseconds: number(1000...3000))
        case .refuse: proxy(.refuse, 500...2500)
        case .reset: proxy(.reset, 200...1500)
        case .delay: proxy(.delay(milliseconds: number(20...400)), 1000...3000)
        case .blackHole: proxy(.blackHole, 1000...7000)
        case .trickle: proxy(.trickle, 1000...3000)
        case .cutAfter: proxy(.cutAfter(bytes: number(1...20_000)), 500...1500)
        }
    }

    private mutating func proxy(_ fault: FaultyProxy.Fault, _ milliseconds: ClosedRange<Int>) -> Fault {
        let breaks =
            switch fault {
            case .delay, .trickle, .blackHole: random.chance(50)
            default: false
            }
        return .proxy(fault, milliseconds: number(milliseconds), server: number(0...servers - 1), breaks: breaks)
    }

    private mutating func number(_ range: ClosedRange<Int>) -> Int {
        Int.random(in: range, using: &random)
    }
}
