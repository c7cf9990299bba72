import StoreSimulator
import TestSupport

/// One thing that goes wrong.
enum Fault: Sendable {
    case killServer
    case terminateServer
    case pauseServer(milliseconds: Int, server: Int)
    /// One of the processes that serve a server's connections; PostgreSQL then starts all of them anew.
    case killBackend(number: Int)
    case killPostmaster
    case lockHead(milliseconds: Int)
    /// A transaction that wrote something and then does nothing.
    case idleTransaction(milliseconds: Int)
    case fillDisk(milliseconds: Int)
    /// - Parameter breaks: In the end what is connected is reset, with all that was held back.
    case proxy(FaultyProxy.Fault, milliseconds: Int, server: Int, breaks: Bool = false)

    enum Kind: CaseIterable {
        case killServer, terminateServer, pauseServer, killBackend, killPostmaster, lockHead, idleTransaction, fillDisk
        case refuse, reset, delay, blackHole, trickle, cutAfter
    }

    /// The server that is killed and ended. The other one lives through the whole storm, so that what it leaks is seen.
    static let mortal = 0
    static let immortal = 1
}

/// The faults of a storm, which follow from its seed alone.
///
/// Each kind comes once, in random order, before any comes again.
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
            // What Apple's 200 and the readers' answers hang on.
            for moment in [FaultyProxy.Moment.beforeCommitSent, .afterCommitSent, .beforeCommitAnswer] {
                bag += ["receiver", "projector"].map { role in
                    // Of the server that is always there.
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
        // Some are longer than the five seconds that a commit may take.
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
