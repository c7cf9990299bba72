/// What each metric counts or measures, for the `# HELP` lines of ``MetricsRegistry``.
enum MetricDescriptions {
    /// Timers whose observations are also counted by their size.
    static let withBuckets: Set = ["subledger_http_request_seconds"]

    /// The upper bounds of these sizes: a local read takes a millisecond, a store's answer up to ten seconds.
    static let boundsSeconds = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

    /// The lines before the first series of a metric.
    static func head(of name: String, _ type: String) -> String {
        let help = texts[name].map { "# HELP \(name) \($0)\n" } ?? ""
        return help + "# TYPE \(name) \(type)\n"
    }

    /// Each on one line, without a backslash.
    static let texts: [String: String] = [
        // The process.
        "process_cpu_seconds_total": "Processor time of the process, user and system.",
        "process_max_fds": "Largest number of open file descriptors.",
        "process_open_fds": "Open file descriptors.",
        "process_resident_memory_bytes": "Resident memory.",
        "process_start_time_seconds": "Start of the process, in seconds since 1970.",
        "process_virtual_memory_bytes": "Virtual memory.",
        "subledger_build_info": "1, with the version as a label.",

        // Requests and connections.
        "subledger_connections_closed_total": "Connections closed by the server.",
        "subledger_console_logins_total": "Logins to the console.",
        "subledger_database_connections": "Connections to the database, by pool and whether a call uses them.",
        "subledger_database_connections_max": "Largest number of connections of a pool.",
        "subledger_database_waiting_calls": "Calls that wait for a connection of a pool.",
        "subledger_hand_ins_forgotten_total": "Refused receipts and unknown purchases that were removed after 30 days.",
        "subledger_http_request_seconds": "Time until the response begins, by route.",
        "subledger_http_requests_total": "Requests, by route and status of the response.",
        "subledger_requests_refused_total": "Requests rejected for their token, assertion or number.",

        // Notifications and the log.
        "subledger_account_tokens_ignored_total": "Account tokens that identify no account.",
        "subledger_seats_lost_total": "Customers who lost a seat, since there are fewer seats than claims.",
        "subledger_account_tokens_shared_total": "Account tokens that turned out to be of too many store accounts.",
        "subledger_append_queue_events": "Events that wait for the next commit.",
        "subledger_append_seconds": "Duration of batch transactions, failed ones included.",
        "subledger_batch_events_total": "Events of committed batches.",
        "subledger_batches_total": "Committed batches.",
        "subledger_cancellations_without_purchase_total":
            "Version 1 notifications that cancel a purchase which their receipt does not contain.",
        "subledger_chain_verdicts_total": "Results of certificate checks.",
        "subledger_customer_notices_total": "What events say about customers besides purchases, by kind.",
        "subledger_defects_total": "Fields that could not be read.",
        "subledger_delivery_audit_days_open": "Days whose deliveries could not be audited when they were last due.",
        "subledger_delivery_lag_seconds": "Time from the event at the store to its receipt.",
        "subledger_archive_files_missing": "Archive files that are not in the folder, or have another length.",
        "subledger_archive_files_stale": "Archive files that were replaced or restored and are still there.",
        "subledger_body_partitions_ahead": "Months after this one that have a partition for the bodies of events.",
        "subledger_notification_queue_usage": "Part of PostgreSQL's notification queue that is in use, from 0 to 1.",
        "subledger_notifications_refused_total": "Rejected notifications.",
        "subledger_notifications_total": "Accepted notifications, repeats included.",
        "subledger_quarantine_dropped_total": "Notifications dropped from the quarantine.",
        "subledger_quarantine_notifications_total": "Signed notifications of apps that are not configured.",
        "subledger_quarantine_taken_in_total": "Notifications taken from the quarantine into the log.",
        "subledger_short_chains_total": "Notifications signed with two certificates instead of three.",
        "subledger_unknown_fields_total": "Fields of signed notifications that this version does not know.",
        "subledger_unknown_values_total":
            "Values that this version does not know, in fields that decide access, ownership or money.",
        "subledger_unknown_types_total": "Notifications of types that this version does not know.",

        // Projection.
        "subledger_products_unconfigured": "Products whose purchases need what their configuration does not say.",
        "subledger_projector_failures_total": "Failed reads of the log and failed folds.",
        "subledger_projector_lag_events": "Events after the checkpoints of all streams.",
        "subledger_projector_stalled_streams": "Streams that are stalled now.",
        "subledger_projector_stalls_total": "Stalls of streams.",

        // Endpoints.
        "subledger_endpoint_bodies_lost": "Notifications that were not passed on: their bodies are lost.",
        "subledger_endpoint_attempts_total": "Attempts to deliver a message to an endpoint.",
        "subledger_endpoint_oldest_undelivered_seconds": "Age of the oldest message that an endpoint has not got.",
        "subledger_endpoints_disabled": "Endpoints that were disabled because they failed or answered 410.",
        "subledger_endpoints_failing": "Active endpoints whose last attempt failed.",

        // The App Store.
        "subledger_backfill_accounts_open": "Accounts whose past could not be read at the last attempt.",
        "subledger_backfill_accounts_total": "Accounts whose past was asked about without a command.",
        "subledger_backfill_waiting_events": "Events in which such accounts are still to be looked for.",
        "subledger_checks_due": "Checks with the App Store that are due now.",
        "subledger_checks_oldest_due_seconds": "How long the oldest check has been due; 0 if none is.",
        "subledger_checks_total": "Checks with the App Store.",
        "subledger_consumption_requests_unreadable": "Refund requests that cannot be read.",
        "subledger_consumption_answers_total": "Answers to refund requests.",
        "subledger_device_statements_total": "Signed data of devices that was handed in.",
        "subledger_notifications_fetched_total": "Notifications that an audit found missing and fetched.",
        "subledger_notifications_lost_total": "Fetched notifications that Apple says it had delivered.",
        "subledger_receipts_total": "Questions about receipts that were handed in.",
        "subledger_store_api_breaker_state": "Whether the Server API is called: 0 yes, 1 one call tries it, 2 no.",
        "subledger_store_api_request_seconds": "Duration of calls to the Server API, failed ones included.",
        "subledger_store_api_requests_total": "Calls to the App Store Server API.",
        "subledger_store_breaker_state": "Whether verifyReceipt is called: 0 yes, 1 one call tries it, 2 no.",
        "subledger_store_budget_waits_total": "Calls that waited for their app's budget or for another call.",
        "subledger_store_request_seconds": "Duration of calls to verifyReceipt, failed ones included.",
        "subledger_store_requests_total": "Calls to verifyReceipt.",
        "subledger_tree_lag_events": "Events that could be in full tiles of their stream's tree and are not yet.",
        "subledger_tree_problems":
            "Streams of which no checkpoint can be signed: the log does not extend the last one.",
        "subledger_work_leads": "1 if this process leads the work for a stream, or there is none to lead; otherwise 0.",

        // Google Play.
        "subledger_google_access_tokens_total": "Access tokens that were requested from Google.",
        "subledger_google_acknowledgements_total": "Attempts to acknowledge a purchase.",
        "subledger_google_breaker_state": "Whether the Play Developer API is called: 0 yes, 1 one call tries it, 2 no.",
        "subledger_google_calls_of_day": "Calls of the current day in California, of the account that asked last.",
        "subledger_google_oldest_unacknowledged_seconds":
            "How long ago the oldest unacknowledged purchase was bought; 0 if all are acknowledged.",
        "subledger_google_purchases_due": "Purchases that are to be asked about now.",
        "subledger_google_purchases_unanswered":
            "Purchases that wait for Google's first answer. From 10,000 of an app on, further ones are refused.",
        "subledger_google_purchases_oldest_due_seconds":
            "How long the oldest purchase has been due to be asked about; 0 if none is.",
        "subledger_failing_parts":
            "Apps and streams whose part of a round fails, of the rounds that this process leads.",
        "subledger_google_order_audit_age_seconds":
            "How long ago the oldest of the apps' last comparisons of recent orders was made.",
        "subledger_google_order_refunds_found_total": "Orders whose refund only the daily comparison showed.",
        "subledger_google_pushes_repeated_total": "Genuine pushes that Pub/Sub had delivered before.",
        "subledger_google_questions_total": "Questions about purchases.",
        "subledger_google_request_seconds": "Duration of calls to the Play Developer API, failed ones included.",
        "subledger_google_requests_total": "Calls to the Play Developer API.",
        "subledger_google_stale_answers_total": "Notifications whose effect no answer has shown within 75 minutes.",
        "subledger_google_void_audit_age_seconds":
            "How long ago the oldest of the apps' last comparisons with the list of voided purchases was made.",
        "subledger_google_voids_found_total": "Voided purchases of the daily list that the log did not have.",
        "subledger_google_voids_open": "Rows of the last lists of voided purchases without a usable answer.",
    ]
}
