import Encoding
import Synchronization

/// The notifications that the store makes, with the attempts to send them.
final class NotificationJournal: Sendable {
    /// A notification that no story has, such as a test.
    struct Extra: Sendable {
        let notificationUUID: String
        let type: String
        let subtype: String?
        let signedDate: Instant
        /// The Apple Account that it is about; nil if it is about none.
        let account: SimulatedAccount.Key?
        let signedPayload: [UInt8]
    }

    /// The place of a notification in the order of signing.
    struct Place: Sendable, Hashable, Comparable {
        let signedMilliseconds: Int64
        /// The number among the notifications of the stories or, from ``extras`` on, among the others.
        let serial: Int

        static let extras = 1 << 60

        static func < (left: Place, right: Place) -> Bool {
            (left.signedMilliseconds, left.serial) < (right.signedMilliseconds, right.serial)
        }
    }

    struct Item: Sendable {
        fileprivate enum Content: Sendable {
            case delivery(SimulatedDelivery)
            case signed([UInt8])
        }

        let place: Place
        let notificationUUID: String
        let type: String
        let subtype: String?
        let signedDate: Instant
        let account: SimulatedAccount.Key?
        let attempts: [SendAttempt]
        fileprivate let content: Content

        /// The purchase that it is about; nil for one of no story.
        var transactionId: String? {
            if case .delivery(let delivery) = content { delivery.notification.subject.transactionId } else { nil }
        }

        /// - Parameter isSignedAnew: Makes other signatures than those that were sent, for notifications of stories.
        func signedPayload(isSignedAnew: Bool = false) -> [UInt8] {
            switch content {
            case .delivery(let delivery): delivery.signedPayload(isSignedAnew: isSignedAnew)
            case .signed(let payload): payload
            }
        }
    }

    private struct State {
        /// Nil until it is needed, because it renders every story.
        var made: MadeNotifications?
        var extras: [Extra] = []
        /// By the serials of the places.
        var attempts: [Int: [SendAttempt]] = [:]
    }

    private let simulation: Simulation
    private let state = Mutex(State())

    init(_ simulation: Simulation) {
        self.simulation = simulation
    }

    /// The notifications of the stories.
    var made: MadeNotifications {
        state.withLock { state in
            let made = state.made ?? MadeNotifications(simulation)
            state.made = made
            return made
        }
    }

    func add(_ extra: Extra) {
        state.withLock { $0.extras.append(extra) }
    }

    /// The other notifications, with their serials, from this one on.
    func extras(from serial: Int) -> [(serial: Int, extra: Extra)] {
        state.withLock { state in
            state.extras.enumerated().dropFirst(serial - Place.extras).map { (Place.extras + $0.offset, $0.element) }
        }
    }

    func record(_ attempt: SendAttempt, of serial: Int) {
        state.withLock { $0.attempts[serial, default: []].append(attempt) }
    }

    func attempts(of serial: Int) -> [SendAttempt] { state.withLock { $0.attempts[serial] ?? [] } }
}

// MARK: - Reading

extension NotificationJournal {
    /// The notification of a serial, which exists.
    func item(_ serial: Int) -> Item {
        if serial >= Place.extras, let (_, extra) = extras(from: serial).first { return item(serial, extra) }
        let delivery = made[serial]
        let notification = delivery.notification
        return Item(
            place: Place(signedMilliseconds: notification.signedDate.milliseconds, serial: serial),
            notificationUUID: notification.notificationUUID, type: notification.version2?.type ?? "",
            subtype: notification.version2?.subtype, signedDate: notification.signedDate, account: delivery.account,
            attempts: attempts(of: serial), content: .delivery(delivery))
    }

    private func item(_ serial: Int, _ extra: Extra) -> Item {
        Item(
            place: Place(signedMilliseconds: extra.signedDate.milliseconds, serial: serial),
            notificationUUID: extra.notificationUUID, type: extra.type, subtype: extra.subtype,
            signedDate: extra.signedDate, account: extra.account, attempts: attempts(of: serial),
            content: .signed(extra.signedPayload))
    }

    /// The first notifications that were signed in the interval, in the order of signing.
    ///
    /// - Parameters:
    ///   - account: Only those about this Apple Account; nil for all.
    ///   - after: Only those after this place; nil for all.
    func items(
        _ interval: Range<Instant>, of account: SimulatedAccount.Key? = nil, after: Place?, atMost limit: Int,
        where matches: (Item) -> Bool
    ) -> [Item] {
        func isWanted(_ item: Item) -> Bool {
            interval.contains(item.signedDate) && (after.map { $0 < item.place } ?? true)
                && (account == nil || item.account == account) && matches(item)
        }
        let made = made
        var found: [Item] = []
        func add(_ positions: some Sequence<Int>) {
            for position in positions {
                guard found.count < limit, made.signedDate(at: position) < interval.upperBound else { return }
                let item = item(position)
                if isWanted(item) { found.append(item) }
            }
        }
        let start = after.flatMap { Instant(milliseconds: $0.signedMilliseconds) } ?? interval.lowerBound
        let first = made.firstIndex(notBefore: max(start, interval.lowerBound))
        // Each look at a notification renders its story, so those of other stories are not looked at.
        if let account {
            add(made.positions(ofStory: account.story).drop { $0 < first })
        } else {
            add(first..<made.endIndex)
        }
        found += extras(from: Place.extras).map { item($0.serial, $0.extra) }.filter { isWanted($0) }
        return Array(found.sorted { $0.place < $1.place }.prefix(limit))
    }

    /// The notification with the UUID, if it is one of no story.
    func extra(_ notificationUUID: String) -> Item? {
        extras(from: Place.extras).first { $0.extra.notificationUUID == notificationUUID }.map {
            item($0.serial, $0.extra)
        }
    }

    /// All notifications until the instant.
    func notifications(at instant: Instant) -> [SimulatedNotification] {
        items(.earliest..<instant.advanced(byMilliseconds: 1), after: nil, atMost: .max) { _ in true }.map {
            SimulatedNotification(
                notificationUUID: $0.notificationUUID, type: $0.type, subtype: $0.subtype, signedDate: $0.signedDate,
                transactionId: $0.transactionId, attempts: $0.attempts)
        }
    }
}
