import Encoding
import Subscriptions

/// A decoded version 1 notification. Not verified, so it must not be trusted.
package struct V1Notification: Sendable {
    let document: JSONDocument
    /// Has already read the app, which is needed before the event.
    let normaliser: V1Normaliser

    /// The bundle id at the top level of the body or in its receipt info; nil if there is none.
    var bundleId: String? { normaliser.bundleId }

    /// - Parameter document: Its root must be an object.
    /// - Throws: ``UndecodableBody/notANotification`` if it has no `notification_type`. Other missing or unreadable
    ///   fields become defects of the event.
    init(_ document: JSONDocument) throws(UndecodableBody) {
        guard let type = document.root["notification_type"], !type.isNull else { throw .notANotification }
        self.document = document
        normaliser = V1Normaliser(document)
    }

    /// The shared secret that the body contains; nil if it is absent or blank.
    var password: String? {
        document.root["password"]?.string.flatMap { isBlank($0) ? nil : $0 }
    }

    /// The body to store, and whether the event of the stored body may differ.
    func withoutSecret() -> (evidence: Evidence, mayDiffer: Bool) {
        document.evidence(without: [password].compactMap { $0 })
    }
}
