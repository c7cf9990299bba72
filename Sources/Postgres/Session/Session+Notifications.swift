import CLibpq
import Foundation

extension Session {
    /// Waits until a notification arrives, the deadline passes, or the wake-up descriptor becomes readable.
    func notifications(
        until deadline: ContinuousClock.Instant, wakeUp: WakeUp
    ) throws(PostgresError) -> [ServerNotification] {
        while true {
            try refresh()
            let arrived = takeNotifications()
            if !arrived.isEmpty || deadline.hasPassed { return arrived }
            var entries = [
                pollfd(fd: PQsocket(connection), events: Int16(POLLIN), revents: 0),
                pollfd(fd: wakeUp.descriptor, events: Int16(POLLIN), revents: 0),
            ]
            let ready = poll(&entries, 2, deadline.pollMilliseconds)
            if ready < 0, errno != EINTR { throw lost() }
            if ready > 0, entries[1].revents != 0 {
                wakeUp.drain()
                try refresh()
                return takeNotifications()
            }
        }
    }

    private func takeNotifications() -> [ServerNotification] {
        var arrived: [ServerNotification] = []
        while let notification = PQnotifies(connection) {
            arrived.append(
                ServerNotification(
                    channel: String(cString: notification.pointee.relname),
                    payload: String(cString: notification.pointee.extra)
                )
            )
            PQfreemem(notification)
        }
        return arrived
    }
}
