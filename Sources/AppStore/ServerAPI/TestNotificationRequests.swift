import Encoding

/// Request a Test Notification: Apple posts a notification of type `TEST` to the app's notification URL.
package struct TestNotificationRequest: ServerAPIRequest {
    package init() {}

    package var endpoint: ServerAPIEndpoint { .testNotification }
    package var method: String { "POST" }
    package var path: String { "/inApps/v1/notifications/test" }
    /// A repeat would send another one.
    package var isRepeatable: Bool { false }

    /// - Returns: The token to ask about the notification with.
    package func answer(decoding body: [UInt8]) throws(UnreadableJSON) -> String {
        guard let token = try ServerAnswer(body).root["testNotificationToken"]?.string else {
            throw .missing("testNotificationToken")
        }
        return token
    }
}

/// Get Test Notification Status: the notification and the attempts to deliver it.
package struct TestNotificationStatusRequest: ServerAPIRequest {
    package let token: String

    package init(token: String) { self.token = token }

    package var endpoint: ServerAPIEndpoint { .testNotificationStatus }
    package var path: String { "/inApps/v1/notifications/test/\(PercentEncoding.encoded(token))" }

    package func answer(decoding body: [UInt8]) throws(UnreadableJSON) -> SentNotification {
        let answer = try ServerAnswer(body)
        return try SentNotification(answer.root, of: answer)
    }
}
