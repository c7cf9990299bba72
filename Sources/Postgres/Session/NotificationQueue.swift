/// The queue of `NOTIFY`, which all databases of a server share and any session can fill.
package enum NotificationQueue {
    /// How often a listener looks for work by itself while the queue is nearly full, because it cannot be notified then.
    package static let lookPause = Duration.seconds(1)

    /// Whether nine tenths of the queue are in use: from there on, nothing of this schema notifies any more.
    package static let isNearlyFull = Statement(
        "notification_queue_is_nearly_full",
        """
        select pg_notification_queue_usage() >= 0.9
        """)
}
